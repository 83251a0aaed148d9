//! The code that the attribute adds: a marker type by which the function can be listed, and its
//! registration entry. What the code calls is in `rillkit::__private`.
//!
//! The names of generated items start with `__rillkit`, since the user's types and constants stand
//! among them; so do those of variables, since a pattern `entry` is no binding where a constant has
//! that name. Whatever is named goes through the alias of `__private`, since any other name may mean
//! something else where the function is. Each bound is asked for by tokens that have the span
//! of what it is about, and only once: the further code takes the values that were checked.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::errors::Errors;
use crate::settings::{self, Settings};
use crate::signature::{self, Handler};

pub(crate) fn subscribe(attribute: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let written = settings::parse(attribute, &mut errors);
    let settings = settings::check(written, &mut errors);
    let function = signature::parse(item.clone(), &mut errors);
    let handler = function.and_then(|function| signature::check(function, &mut errors));
    match (settings, handler) {
        (Some(settings), Some(handler)) if errors.is_empty() => {
            let registration = registration(&settings, &handler);
            quote!(#item #registration)
        }
        _ => quote!(#item #errors),
    }
}

fn registration(settings: &Settings, handler: &Handler) -> TokenStream {
    let Handler {
        conditions,
        visibility,
        name,
        ..
    } = handler;
    // The span says that an attribute made it, so no lint looks at its name.
    let mut marker = name.clone();
    marker.set_span(Span::call_site().located_at(name.span()));
    let krate = settings.krate();
    let feed = feed(settings, handler);
    let params = params(handler);
    let call = call(settings, handler);
    let subscription = subscription(settings, handler);
    quote! {
        #(#conditions)*
        #[doc(hidden)]
        #visibility struct #marker {}

        #(#conditions)*
        const _: () = {
            use #krate::__private as __rillkit;
            type __RillkitEntry = __rillkit::Subscription;
            #feed
            #params
            #call
            const __RILLKIT_SUBSCRIPTION: __RillkitEntry = #subscription;
            impl __rillkit::Handler for #marker {
                const SUBSCRIPTION: &'static __RillkitEntry = &__RILLKIT_SUBSCRIPTION;
            }
            __rillkit::inventory::submit! { __RILLKIT_SUBSCRIPTION }
        };
    }
}

/// The decoder of the first parameter, and the stream.
fn feed(settings: &Settings, handler: &Handler) -> TokenStream {
    let body = &handler.body;
    let stream = &settings.stream.tokens;
    let feed = if settings.stream.text.is_some() {
        quote_spanned!(body.span()=> __rillkit::named::<#body>)
    } else {
        quote_spanned!(body.span()=> __rillkit::typed::<#body, _, _>)
    };
    let feed = quote_spanned!(stream.span()=> #feed(#stream));
    quote!(const __RILLKIT_FEED: __rillkit::Feed<#body> = #feed;)
}

/// The extractors of the further parameters.
fn params(handler: &Handler) -> TokenStream {
    let types = &handler.further;
    if types.is_empty() {
        return TokenStream::new();
    }
    let params = types
        .iter()
        .map(|ty| quote_spanned!(ty.span()=> __rillkit::param::<#ty>()));
    quote!(const __RILLKIT_PARAMS: (#(__rillkit::Param<#types>,)*) = (#(#params,)*);)
}

/// Decodes, extracts and calls.
fn call(settings: &Settings, handler: &Handler) -> TokenStream {
    let name = &handler.name;
    let message = Ident::new("__rillkit_message", Span::mixed_site());
    let indices = (0..handler.further.len()).map(syn::Index::from);
    let further = quote!(#(, (__RILLKIT_PARAMS.#indices.extract)(#message))*);
    let body = quote!((__RILLKIT_FEED.body)(#message)?);
    let key = settings
        .get("idempotent")
        .and_then(|value| value.key_function.as_ref());
    let (keep_key, body) = match key {
        None => (TokenStream::new(), body),
        Some(function) => {
            // Where the types do not fit, the function is shown.
            let span = Span::mixed_site().located_at(function.span());
            let decoded = Ident::new("__rillkit_body", span);
            let key = quote_spanned!(function.span()=> #function(&#decoded));
            let keep = quote_spanned!(function.span()=> __rillkit::key(#message, #key)?;);
            (quote!(let #decoded = #body; #keep), quote!(#decoded))
        }
    };
    let arguments = quote!(#body #further);
    let future = quote_spanned!(name.span()=> #name(#arguments));
    let outcome = outcome(handler);
    let deprecated = handler.deprecated.then(|| quote!(#[allow(deprecated)]));
    quote! {
        #deprecated
        fn __rillkit_call(
            #message: &__rillkit::Message,
        ) -> __rillkit::Result<__rillkit::HandlerFuture, __rillkit::Undecodable> {
            #keep_key
            __rillkit::Result::Ok(__rillkit::run(#future, #outcome))
        }
    }
}

/// The path to the conversion of what the function returns, from the first to the last token of the
/// return type.
fn outcome(handler: &Handler) -> TokenStream {
    let Some(output) = &handler.output else {
        return quote_spanned!(handler.name.span()=> __rillkit::outcome);
    };
    let tokens: Vec<_> = quote!(#output).into_iter().collect();
    let first = tokens
        .first()
        .map_or_else(Span::call_site, |token| token.span());
    let last = tokens
        .last()
        .map_or_else(Span::call_site, |token| token.span());
    let root = quote_spanned!(first=> __rillkit::);
    let conversion = quote_spanned!(last=> outcome);
    quote!(#root #conversion)
}

/// The registration entry. Its settings are calls of their own, so that the span of each is the span
/// of its value: there the compiler shows a constant that is out of range.
fn subscription(settings: &Settings, handler: &Handler) -> TokenStream {
    let entry = Ident::new("__rillkit_entry", Span::mixed_site());
    let new = new(settings, handler);
    let dlq = settings
        .stream
        .text
        .is_none()
        .then(|| quote!(let #entry = #entry.stream_dlq(__RILLKIT_FEED.dlq);));
    let setters = settings.setters().map(|(key, value)| {
        let tokens = &value.tokens;
        let setter = Ident::new(value.setter.unwrap_or(key), tokens.span());
        let call = quote_spanned!(tokens.span()=> __RillkitEntry::#setter(#entry, #tokens));
        quote!(let #entry = #call;)
    });
    let requirements = (!handler.further.is_empty()).then(|| {
        let indices = (0..handler.further.len()).map(syn::Index::from);
        quote!(let #entry = #entry.requirements(&[#(__RILLKIT_PARAMS.#indices.requirement),*]);)
    });
    // What is left to find is a cap below the lease.
    let cap = settings
        .get("max_backoff_ms")
        .map_or_else(Span::call_site, |cap| cap.tokens.span());
    let check = quote_spanned!(cap=> __RillkitEntry::check(#entry));
    quote! {{
        let #entry = #new;
        #dlq
        #(#setters)*
        #requirements
        #check
    }}
}

fn new(settings: &Settings, handler: &Handler) -> TokenStream {
    let name = handler.name.unraw().to_string();
    let place = quote_spanned!(handler.name.span()=>
        __rillkit::module_path!(), __rillkit::file!(), __rillkit::line!()
    );
    let group = &settings.group.tokens;
    let arguments = quote!(#name, #place, __RILLKIT_FEED.name, #group, __rillkit_call);
    quote_spanned!(group.span()=> __RillkitEntry::new(#arguments))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    /// What becomes of the attribute and the function under it.
    fn expanded(attribute: &str, item: &str) -> String {
        let attribute = attribute.parse().expect("an attribute");
        let item = item.parse().expect("a function");
        let expansion = subscribe(attribute, &item);
        prettyplease::unparse(&syn::parse2(expansion).expect("items"))
    }

    #[test]
    fn of_a_stream_by_its_name() {
        assert_snapshot!(expanded(
            r#"stream = "jobs", group = "workers""#,
            "async fn run_job(job: Job) { work(job).await }",
        ));
    }

    #[test]
    fn of_a_stream_by_its_constant() {
        assert_snapshot!(expanded(
            "stream = streams::JOBS, group = GROUP, max_retries = RETRIES",
            "/// Runs jobs.
             #[cfg(unix)]
             pub(crate) async fn run_job(job: Job, msg: Message, state: State<Pool>) -> Result<(), JobError> {}",
        ));
    }

    #[test]
    fn of_all_settings() {
        assert_snapshot!(expanded(
            r#"stream = "jobs", group = "workers", max_retries = None, claim_idle_ms = 300, backoff = 2,
               max_backoff_ms = 10_000, jitter = 0.25, block_ms = 1_000, ack_policy = manual, delete_on_ack = true, concurrency = 4,
               timeout_ms = 2_000, idempotent = job::key, idempotent_for_ms = 1_000,
               dlq = "failed", consumer = "me", start = "$", crate = crate::facade::rk"#,
            "async fn run_job(message: Message) {}",
        ));
    }
}
