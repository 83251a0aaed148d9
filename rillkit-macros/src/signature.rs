//! The function that the attribute is on. Its signature alone is parsed: the body stays as it is, so
//! that completion works in a body that does not parse yet.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, GenericParam, Generics, Ident, Meta, ReturnType, Signature, Token, Type,
    Visibility,
};

use crate::errors::Errors;
use crate::types;

/// A function as it was written.
pub(crate) struct Function {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    signature: Signature,
    has_body: bool,
}

/// A function that can be a handler.
pub(crate) struct Handler {
    /// The conditions under which the function is there at all.
    pub(crate) conditions: Vec<Attribute>,
    pub(crate) deprecated: bool,
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
    pub(crate) body: Type,
    pub(crate) further: Vec<Type>,
    pub(crate) output: Option<Type>,
}

pub(crate) fn parse(item: TokenStream, errors: &mut Errors) -> Option<Function> {
    errors.take(Function::parse.parse2(item))
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if !is_function(&input.fork()) {
            let found = input.fork().call(Ident::parse_any)?;
            return Err(syn::Error::new(
                found.span(),
                format!(
                    "`#[subscribe]` goes on an async function, not on this `{found}`; write `async fn name(body: Body) {{ .. }}`"
                ),
            ));
        }
        let signature = input.parse()?;
        let has_body = !input.peek(Token![;]);
        input.parse::<TokenStream>()?;
        Ok(Self {
            attributes,
            visibility,
            signature,
            has_body,
        })
    }
}

fn is_function(input: ParseStream<'_>) -> bool {
    let qualifiers = input.parse::<Option<Token![const]>>().is_ok()
        && input.parse::<Option<Token![async]>>().is_ok()
        && input.parse::<Option<Token![unsafe]>>().is_ok()
        && input.parse::<Option<syn::Abi>>().is_ok();
    qualifiers && input.peek(Token![fn])
}

pub(crate) fn check(function: Function, errors: &mut Errors) -> Option<Handler> {
    let Function {
        attributes,
        visibility,
        signature,
        has_body,
    } = function;
    let name = signature.ident.clone();
    if !has_body {
        errors.add(&name, format!("`{name}` has no body; a handler is a function of its own, not one that a trait declares"));
    }
    if let Some(second) = attributes.iter().find(|attribute| is_subscribe(attribute)) {
        errors.add(
            second,
            format!("`{name}` has two `#[subscribe]`; a function is the handler of one stream: write a second function that calls `{name}`"),
        );
    }
    check_shape(&signature, errors);
    let types = parameters(signature.inputs, errors);
    check_generics(&signature.generics, &types, errors);
    let output = match signature.output {
        ReturnType::Default => None,
        ReturnType::Type(_, output) => Some(*output),
    };
    if let (Some(Type::ImplTrait(found)), Some(_)) = (&output, signature.asyncness) {
        errors.add(
            found,
            "a handler's return type is written out; write `()` or `Result<(), E>`",
        );
    }
    let deprecated = attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("deprecated"));
    let conditions = attributes.into_iter().filter_map(condition).collect();
    let mut types = types.into_iter();
    Some(Handler {
        conditions,
        deprecated,
        visibility,
        name,
        body: types.next()?,
        further: types.collect(),
        output,
    })
}

fn check_shape(signature: &Signature, errors: &mut Errors) {
    let name = &signature.ident;
    if signature.asyncness.is_none() {
        errors.add_at(
            signature.fn_token.span,
            format!("a handler is an async function; write `async fn {name}`"),
        );
    }
    if let Some(token) = &signature.unsafety {
        errors.add(token, "a handler is not an unsafe function; remove `unsafe`, and put an unsafe block into the body");
    }
    if let Some(abi) = &signature.abi {
        errors.add(
            abi,
            "a handler is not an extern function; remove the `extern`",
        );
    }
    if let Some(variadic) = &signature.variadic {
        errors.add(
            variadic,
            "a handler has a fixed number of parameters; remove `...`",
        );
    } else if signature.inputs.is_empty() {
        errors.add(
            name,
            format!("`{name}` takes no message; write `async fn {name}(body: Body)`, with a `Deserialize` type or `Message`"),
        );
    }
}

/// The types of the parameters, in order; each that can be none is reported.
fn parameters(inputs: Punctuated<FnArg, Token![,]>, errors: &mut Errors) -> Vec<Type> {
    let mut types = Vec::new();
    for input in inputs {
        match input {
            FnArg::Receiver(receiver) => errors.add(
                receiver,
                "a handler is a free function and has no `self`; take what it shares with others as a parameter `State<T>`",
            ),
            FnArg::Typed(parameter) => {
                if let Some(cfg) = parameter.attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
                    errors.add(cfg, "a handler's parameters are there or not; put the `cfg` on the function");
                }
                if let Err(mistake) = types::check_parameter(&parameter.ty) {
                    errors.push(mistake);
                }
                types.push(*parameter.ty);
            }
        }
    }
    types
}

fn check_generics(generics: &Generics, types: &[Type], errors: &mut Errors) {
    let lifetimes = generics
        .params
        .iter()
        .all(|param| matches!(param, GenericParam::Lifetime(_)));
    if generics.params.is_empty() {
        if let Some(clause) = &generics.where_clause {
            errors.add(
                clause,
                "a handler has no `where` clause: its types are concrete; remove it",
            );
        }
    } else if !lifetimes {
        errors.add(
            generics,
            "a handler is registered once, for concrete types; remove the generic parameters, and write the types themselves",
        );
    } else if types.iter().all(|ty| types::check_parameter(ty).is_ok()) {
        errors.add(
            generics,
            "a handler owns its parameters; remove the lifetimes",
        );
    }
}

fn is_subscribe(attribute: &Attribute) -> bool {
    let mut segments = attribute
        .path()
        .segments
        .iter()
        .rev()
        .map(|segment| &segment.ident);
    segments.next().is_some_and(|last| last == "subscribe")
        && segments.next().is_none_or(|krate| krate == "rillkit")
}

/// What of an attribute decides whether the function is compiled.
fn condition(mut attribute: Attribute) -> Option<Attribute> {
    if attribute.path().is_ident("cfg") {
        return Some(attribute);
    }
    let Meta::List(list) = &mut attribute.meta else {
        return None;
    };
    if !list.path.is_ident("cfg_attr") {
        return None;
    }
    let parts = Punctuated::<Meta, Token![,]>::parse_terminated
        .parse2(list.tokens.clone())
        .ok()?;
    let mut parts = parts.into_iter();
    let predicate = parts.next()?;
    let conditions: Vec<_> = parts.filter(|part| part.path().is_ident("cfg")).collect();
    list.tokens = quote::quote_spanned!(list.tokens.span()=> #predicate, #(#conditions),*);
    (!conditions.is_empty()).then_some(attribute)
}
