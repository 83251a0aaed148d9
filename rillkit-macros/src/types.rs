//! What the types of a handler's parameters must not be. Anything else is for the compiler to judge,
//! by the bounds that the expansion asks for.

use syn::{GenericArgument, PathArguments, Type, TypePath, TypeReference};

use crate::words::text;

/// Refuses what the caller would have to own or to choose.
pub(crate) fn check_parameter(ty: &Type) -> syn::Result<()> {
    match ty {
        Type::Group(group) => check_parameter(&group.elem),
        Type::Paren(paren) => check_parameter(&paren.elem),
        Type::Reference(reference) => Err(borrowed(reference)),
        other => check_part(other),
    }
}

/// The same for a type inside of another, where what lives for ever may be borrowed.
fn check_part(ty: &Type) -> syn::Result<()> {
    match ty {
        Type::Reference(reference) => match &reference.lifetime {
            Some(lifetime) if lifetime.ident == "static" => check_part(&reference.elem),
            _ => Err(borrowed(reference)),
        },
        Type::ImplTrait(found) => Err(syn::Error::new_spanned(
            found,
            format!(
                "a handler is registered for concrete types; write a type in place of `{}`",
                text(found)
            ),
        )),
        Type::Group(group) => check_part(&group.elem),
        Type::Paren(paren) => check_part(&paren.elem),
        Type::Array(array) => check_part(&array.elem),
        Type::Tuple(tuple) => tuple.elems.iter().try_for_each(check_part),
        Type::Path(path) => check_arguments(path),
        _ => Ok(()),
    }
}

fn check_arguments(path: &TypePath) -> syn::Result<()> {
    for segment in &path.path.segments {
        let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
            continue;
        };
        for argument in &arguments.args {
            match argument {
                GenericArgument::Type(ty) => check_part(ty)?,
                GenericArgument::Lifetime(lifetime) if lifetime.ident != "static" => {
                    return Err(syn::Error::new_spanned(
                        lifetime,
                        format!(
                            "a handler owns its parameters; write `'static` in place of `{lifetime}`, or take an owned type"
                        ),
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn borrowed(reference: &TypeReference) -> syn::Error {
    let owned = match &*reference.elem {
        Type::Path(path) if path.path.is_ident("str") => "String".to_owned(),
        Type::Slice(slice) => format!("Vec<{}>", text(&slice.elem)),
        other => text(other),
    };
    syn::Error::new_spanned(
        reference,
        format!(
            "a handler owns its parameters; write `{owned}` in place of `{}`",
            text(reference)
        ),
    )
}
