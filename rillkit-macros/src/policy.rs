//! The value of `ack_policy`: a word, which is neither a string nor a path to a variant.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Lit};

use crate::words;

/// The names of the policies, and of their variants.
const POLICIES: [(&str, &str); 4] = [
    ("nack_on_error", "NackOnError"),
    ("ack_always", "AckAlways"),
    ("ack_first", "AckFirst"),
    ("manual", "Manual"),
];

pub(crate) fn check(expr: &Expr) -> syn::Result<TokenStream> {
    let (written, quoted) = match expr {
        Expr::Path(path) => (
            path.path.segments.last().map(|last| last.ident.to_string()),
            false,
        ),
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => (Some(text.value()), true),
        _ => (None, false),
    };
    let written = written.unwrap_or_default();
    let known = POLICIES.iter().find(|(name, _)| *name == written);
    if let (Some((name, variant)), Expr::Path(path)) = (known, expr)
        && path.path.is_ident(name)
    {
        let variant = Ident::new(variant, Span::call_site().located_at(expr.span()));
        return Ok(quote_spanned!(expr.span()=> __rillkit::AckPolicy::#variant));
    }
    let cure = match (
        known,
        words::nearest(&written, POLICIES.iter().map(|(name, _)| *name)),
    ) {
        (Some((name, _)), _) if quoted => {
            format!("`ack_policy` takes a word; drop the quotes: `ack_policy = {name}`")
        }
        (_, Some(meant)) => format!(
            "unknown policy `{}`; did you mean `{meant}`?",
            words::text(expr)
        ),
        _ => format!("unknown policy `{}`", words::text(expr)),
    };
    let accepted = words::list(POLICIES.iter().map(|(name, _)| *name));
    let separator = if cure.ends_with('?') { "" } else { ";" };
    Err(syn::Error::new_spanned(
        expr,
        format!("{cure}{separator} accepted: {accepted}"),
    ))
}
