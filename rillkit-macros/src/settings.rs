//! The settings of the attribute: how they are read, and what holds between them. Which there are is
//! in [`keys`](crate::keys), what one value may be in [`values`](crate::values).

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Token, parse_quote_spanned, token};

use crate::errors::Errors;
use crate::keys::{KEYS, Key, Kind, accepted};
use crate::values::Value;
use crate::words;

const DEFAULT_CLAIM_IDLE_MS: u64 = 60_000;

/// The attribute as it was written: each key once, its value not yet looked at.
#[derive(Default)]
pub(crate) struct Written {
    settings: Vec<(&'static Key, Expr)>,
    /// Keys that are there in some form, though perhaps misspelt: they are not missing as well.
    seen: Vec<&'static str>,
}

/// Settings that can be expanded.
pub(crate) struct Settings {
    pub(crate) stream: Value,
    pub(crate) group: Value,
    /// The optional ones that were given.
    optional: Values,
}

impl Settings {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.optional.get(name)
    }

    /// The keys that are setters of the registration entry.
    pub(crate) fn setters(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let setters = self
            .optional
            .0
            .iter()
            .filter(|(key, _)| !matches!(key.kind, Kind::CratePath));
        setters.map(|(key, value)| (key.name, value))
    }

    /// The path of the crate `rillkit`.
    pub(crate) fn krate(&self) -> TokenStream {
        self.get("crate")
            .map_or_else(|| quote!(::rillkit), |path| path.tokens.clone())
    }
}

struct Values(Vec<(&'static Key, Value)>);

impl Values {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(key, _)| key.name == name)
            .map(|(_, value)| value)
    }

    fn remove(&mut self, name: &str) -> Option<Value> {
        let index = self.0.iter().position(|(key, _)| key.name == name)?;
        Some(self.0.remove(index).1)
    }
}

/// Reads all keys, going on behind each mistake.
pub(crate) fn parse(attribute: TokenStream, errors: &mut Errors) -> Written {
    let mut written = Written::default();
    let read = |input: ParseStream<'_>| {
        while !input.is_empty() {
            if let Err(mistake) = setting(input, &mut written, errors) {
                errors.push(mistake);
                skip_to_comma(input);
            }
            comma(input, errors);
        }
        Ok(())
    };
    let result = read.parse2(attribute);
    errors.take(result);
    written
}

fn setting(input: ParseStream<'_>, written: &mut Written, errors: &mut Errors) -> syn::Result<()> {
    if input.peek(LitStr) {
        return Err(without_key(&input.parse()?, written));
    }
    if !input.peek(Ident::peek_any) {
        return Err(input.error(format!("expected a key; accepted keys: {}", accepted())));
    }
    let name = input.call(Ident::parse_any)?;
    let Some(key) = KEYS.iter().find(|key| name == key.name) else {
        return Err(unknown(&name, written));
    };
    let twice = written.seen.contains(&key.name);
    written.seen.push(key.name);
    let value = value(input, key, &name)?;
    if twice {
        errors.add(
            &name,
            format!("`{name}` is given twice; remove one of them"),
        );
    } else {
        written.settings.push((key, value));
    }
    Ok(())
}

fn value(input: ParseStream<'_>, key: &Key, name: &Ident) -> syn::Result<Expr> {
    if input.peek(Token![:]) || input.peek(Token![==]) || input.peek(token::Paren) {
        return Err(input.error(format!(
            "expected `=` after `{name}`; write `{name} = {}`",
            key.kind.example()
        )));
    }
    // The word alone says it all.
    if matches!(key.kind, Kind::Idempotent) && (input.is_empty() || input.peek(Token![,])) {
        return Ok(parse_quote_spanned!(name.span()=> true));
    }
    let equals: Option<Token![=]> = input.parse()?;
    if equals.is_none() || input.is_empty() || input.peek(Token![,]) {
        return Err(syn::Error::new(
            name.span(),
            format!(
                "`{name}` has no value; write `{name} = {}`",
                key.kind.example()
            ),
        ));
    }
    input.parse().map_err(|error| {
        syn::Error::new(
            error.span(),
            format!(
                "`{name}` expects {}, as in `{name} = {}`",
                key.kind.expects(),
                key.kind.example()
            ),
        )
    })
}

fn without_key(value: &LitStr, written: &mut Written) -> syn::Error {
    let name = KEYS
        .iter()
        .find(|key| key.required && !written.seen.contains(&key.name))
        .map_or("stream", |key| key.name);
    written.seen.push(name);
    syn::Error::new(
        value.span(),
        format!(
            "a value without its key; write `{name} = \"{}\"`, or whichever key is meant",
            value.value().escape_debug()
        ),
    )
}

fn unknown(name: &Ident, written: &mut Written) -> syn::Error {
    let nearest = words::nearest(&name.to_string(), KEYS.iter().map(|key| key.name));
    written.seen.extend(nearest);
    let meant = nearest.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    syn::Error::new(
        name.span(),
        format!(
            "unknown key `{name}`{meant}{} accepted keys: {}",
            if meant.is_empty() { ";" } else { "" },
            accepted()
        ),
    )
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        // A token tree always parses where there is one.
        let _ = input.parse::<proc_macro2::TokenTree>();
    }
}

fn comma(input: ParseStream<'_>, errors: &mut Errors) {
    if input.is_empty() {
        return;
    }
    if input.peek(Token![,]) {
        let _ = input.parse::<Token![,]>();
    } else if input.peek(Ident::peek_any) {
        errors.push(input.error("expected `,` before the next key"));
    } else {
        errors.push(input.error("expected `,` and the next key"));
        skip_to_comma(input);
    }
}

/// Looks at every value, then at what holds between them.
pub(crate) fn check(written: Written, errors: &mut Errors) -> Option<Settings> {
    let missing: Vec<_> = KEYS
        .iter()
        .filter(|key| key.required && !written.seen.contains(&key.name))
        .map(|key| key.name)
        .collect();
    if !missing.is_empty() {
        errors.add_at(
            Span::call_site(),
            format!(
                "missing `{}`; write `#[subscribe(stream = \"..\", group = \"..\")]`",
                missing.join("` and `")
            ),
        );
    }
    let claimed = written.seen.contains(&"claim_idle_ms");
    let mut values = Values(Vec::new());
    for (key, expr) in written.settings {
        let value = errors.take(key.kind.check(key.name, expr));
        values.0.extend(value.map(|value| (key, value)));
    }
    check_backoff(&values, claimed, errors);
    check_dlq(&values, errors);
    check_idempotent(&values, written.seen.contains(&"idempotent"), errors);
    Some(Settings {
        stream: values.remove("stream")?,
        group: values.remove("group")?,
        optional: values,
    })
}

fn check_backoff(values: &Values, claimed: bool, errors: &mut Errors) {
    let Some(cap) = values.get("max_backoff_ms") else {
        return;
    };
    let lease = match values.get("claim_idle_ms") {
        Some(value) => value.integer,
        None => (!claimed).then_some(DEFAULT_CLAIM_IDLE_MS),
    };
    if let (Some(most), Some(lease)) = (cap.integer, lease)
        && most < lease
    {
        let default = if claimed { "" } else { ", its default" };
        errors.add(
            &cap.tokens,
            format!(
                "`max_backoff_ms` must not be below `claim_idle_ms`, the first retry delay; \
                 write {lease}{default}, or more, or lower `claim_idle_ms`"
            ),
        );
    }
}

fn check_idempotent(values: &Values, is_idempotent: bool, errors: &mut Errors) {
    if let (Some(lifetime), false) = (values.get("idempotent_for_ms"), is_idempotent) {
        errors.add(
            &lifetime.tokens,
            "`idempotent_for_ms` is for idempotent handlers; write `idempotent = true` as well, or remove it",
        );
    }
}

fn check_dlq(values: &Values, errors: &mut Errors) {
    let (Some(stream), Some(dlq)) = (values.get("stream"), values.get("dlq")) else {
        return;
    };
    if stream.text.is_some() && stream.text == dlq.text {
        errors.add(
            &dlq.tokens,
            "`dlq` is the stream itself, so a dead letter would be delivered again for ever; name another stream",
        );
    }
}
