//! The settings of the attribute: which keys there are, how they are read, and what holds between
//! them. What one value may be is the business of [`values`](crate::values).

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Token, token};

use crate::errors::Errors;
use crate::values::{Kind, Value};
use crate::words;

/// One key of the attribute.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    required: bool,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key {
        name,
        kind,
        required: false,
    }
}

/// Every key there is. Parsing, the messages and the expansion go by this table.
const KEYS: &[Key] = &[
    Key {
        name: "stream",
        kind: Kind::Stream,
        required: true,
    },
    Key {
        name: "group",
        kind: Kind::Name,
        required: true,
    },
    key("max_retries", Kind::Retries),
    key("claim_idle_ms", Kind::Milliseconds { least: 100 }),
    key(
        "backoff",
        Kind::Number {
            least: 1.0,
            most: f64::MAX,
        },
    ),
    key("max_backoff_ms", Kind::Milliseconds { least: 0 }),
    key(
        "jitter",
        Kind::Number {
            least: 0.0,
            most: 1.0,
        },
    ),
    key("block_ms", Kind::Milliseconds { least: 1 }),
    key("ack_policy", Kind::Policy),
    key("concurrency", Kind::Count),
    key("timeout_ms", Kind::Milliseconds { least: 1 }),
    key("dlq", Kind::Name),
    key("consumer", Kind::Name),
    key("start", Kind::Start),
    key("crate", Kind::CratePath),
];

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
    values: Vec<(&'static Key, Value)>,
}

impl Settings {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values
            .iter()
            .find(|(key, _)| key.name == name)
            .map(|(_, value)| value)
    }

    /// The keys that are setters of the registration entry.
    pub(crate) fn setters(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let setter = |key: &Key| !key.required && !matches!(key.kind, Kind::CratePath);
        self.values
            .iter()
            .filter(move |(key, _)| setter(key))
            .map(|(key, value)| (key.name, value))
    }

    /// The path of the crate `rillkit`.
    pub(crate) fn krate(&self) -> TokenStream {
        self.get("crate")
            .map_or_else(|| quote!(::rillkit), |path| path.tokens.clone())
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

fn accepted() -> String {
    words::list(KEYS.iter().map(|key| key.name))
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
pub(crate) fn check(written: Written, errors: &mut Errors) -> Settings {
    let missing: Vec<_> = KEYS
        .iter()
        .filter(|key| key.required && !written.seen.contains(&key.name))
        .map(|key| key.name)
        .collect();
    if !missing.is_empty() {
        errors.add_at(
            Span::call_site(),
            format!(
                "missing {}; write `#[subscribe(stream = \"..\", group = \"..\")]`",
                words::list(missing)
            ),
        );
    }
    let claimed = written
        .settings
        .iter()
        .any(|(key, _)| key.name == "claim_idle_ms");
    let mut settings = Settings { values: Vec::new() };
    for (key, expr) in written.settings {
        let value = errors.take(key.kind.check(key.name, expr));
        settings.values.extend(value.map(|value| (key, value)));
    }
    check_backoff(&settings, claimed, errors);
    check_dlq(&settings, errors);
    settings
}

fn check_backoff(settings: &Settings, claimed: bool, errors: &mut Errors) {
    let Some(cap) = settings.get("max_backoff_ms") else {
        return;
    };
    let lease = match settings.get("claim_idle_ms") {
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

fn check_dlq(settings: &Settings, errors: &mut Errors) {
    let (Some(stream), Some(dlq)) = (settings.get("stream"), settings.get("dlq")) else {
        return;
    };
    if stream.text.is_some() && stream.text == dlq.text {
        errors.add(
            &dlq.tokens,
            "`dlq` is the stream itself, so a dead letter would be delivered again for ever; name another stream",
        );
    }
}
