//! The code that the attribute adds: a marker type by which the function can be listed, and its
//! registration entry. What the code calls is in `rillkit::__private`.
//!
//! The names of generated items start with `__rillkit`, since the user's types and constants stand
//! among them, and whatever is named goes through the alias of `__private`, since any other name may
//! mean something else where the function is. Each bound is asked for by tokens that have the span
//! of what it is about, and only once: the further code takes the values that were checked.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
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
    match handler {
        Some(handler) if errors.is_empty() => {
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
    // Lints do not look at what an attribute made, and this is what tells them.
    let marker = Ident::new(&name.to_string(), Span::call_site().located_at(name.span()));
    let krate = settings.krate();
    let feed = feed(settings, handler);
    let params = params(handler);
    let call = call(handler);
    let subscription = subscription(settings, handler);
    quote! {
        #(#conditions)*
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #visibility struct #marker {}

        #(#conditions)*
        const _: () = {
            use #krate::__private as __rillkit;
            #feed
            #params
            #call
            const __RILLKIT_SUBSCRIPTION: __rillkit::Subscription = #subscription;
            impl __rillkit::Handler for #marker {
                const SUBSCRIPTION: &'static __rillkit::Subscription = &__RILLKIT_SUBSCRIPTION;
            }
            __rillkit::inventory::submit! { __RILLKIT_SUBSCRIPTION }
        };
    }
}

/// The stream, and the decoder of the first parameter.
fn feed(settings: &Settings, handler: &Handler) -> TokenStream {
    let body = &handler.body;
    let stream = settings
        .get("stream")
        .map(|stream| (&stream.tokens, stream.text.is_some()));
    let feed = match stream {
        Some((name, true)) => quote_spanned!(body.span()=> __rillkit::named::<#body>(#name)),
        Some((constant, false)) => {
            quote_spanned!(body.span()=> __rillkit::typed::<#body, _>(#constant))
        }
        None => TokenStream::new(),
    };
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
fn call(handler: &Handler) -> TokenStream {
    let name = &handler.name;
    let message = format_ident!("message", span = Span::mixed_site());
    let indices = (0..handler.further.len()).map(syn::Index::from);
    let further = quote!(#(, (__RILLKIT_PARAMS.#indices.extract)(#message))*);
    let arguments = quote!((__RILLKIT_FEED.body)(#message)? #further);
    let future = quote_spanned!(name.span()=> #name(#arguments));
    let outcome = outcome(handler);
    quote! {
        #[allow(deprecated)]
        fn __rillkit_call(
            #message: &__rillkit::Message,
        ) -> __rillkit::Result<__rillkit::HandlerFuture, __rillkit::Undecodable> {
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

/// The registration entry.
fn subscription(settings: &Settings, handler: &Handler) -> TokenStream {
    let name = handler.name.unraw().to_string();
    let place = quote_spanned!(handler.name.span()=>
        __rillkit::module_path!(), __rillkit::file!(), __rillkit::line!()
    );
    let group = settings.get("group").map(|group| &group.tokens);
    let dlq = settings
        .get("stream")
        .filter(|stream| stream.text.is_none())
        .map(|_| quote!(.stream_dlq(__RILLKIT_FEED.dlq)));
    let setters = settings.setters().map(|(key, value)| {
        let tokens = &value.tokens;
        let setter = Ident::new(value.setter.unwrap_or(key), Span::call_site());
        quote_spanned!(tokens.span()=> .#setter(#tokens))
    });
    let requirements = (!handler.further.is_empty()).then(|| {
        let indices = (0..handler.further.len()).map(syn::Index::from);
        quote!(.requirements(&[#(__RILLKIT_PARAMS.#indices.requirement),*]))
    });
    quote! {
        __rillkit::Subscription::new(#name, #place, __RILLKIT_FEED.name, #group, __rillkit_call)
            #dlq
            #(#setters)*
            #requirements
            .check()
    }
}
