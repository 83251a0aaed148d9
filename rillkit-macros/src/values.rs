//! What the value of a key may be. Literals are checked here; any other expression is passed on,
//! and the compiler checks its type and, in the setters of the registration entry, its range.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, ExprUnary, Lit, UnOp};

use crate::keys::Kind;
use crate::policy;
use crate::words;

/// What `delete_on_ack` may be besides a boolean.
const EVEN: &str = "even_with_other_groups";

/// A value that can be expanded.
pub(crate) struct Value {
    pub(crate) tokens: TokenStream,
    /// What a string literal says.
    pub(crate) text: Option<String>,
    /// What an integer literal says.
    pub(crate) integer: Option<u64>,
    /// The setter to call in place of the key's own.
    pub(crate) setter: Option<&'static str>,
    /// The function that makes a key of the body.
    pub(crate) key_function: Option<TokenStream>,
}

impl Value {
    fn new(tokens: TokenStream) -> Self {
        Self {
            tokens,
            text: None,
            integer: None,
            setter: None,
            key_function: None,
        }
    }
}

impl Kind {
    pub(crate) fn check(&self, key: &str, expr: Expr) -> syn::Result<Value> {
        let expr = plain(expr);
        match self {
            Self::Policy => policy::check(&expr).map(Value::new),
            Self::CratePath => self.crate_path(key, &expr),
            Self::Deletion => self.deletion(key, &expr),
            Self::Idempotent => self.idempotent(key, &expr),
            Self::Retries if is_path_to(&expr, "None") => Ok(Value {
                setter: Some("retry_for_ever"),
                ..Value::new(TokenStream::new())
            }),
            Self::Retries if matches!(&expr, Expr::Call(call) if is_path_to(&call.func, "Some")) => {
                Err(at(
                    &expr,
                    format!(
                        "`{key}` expects {}; write the number without `Some`",
                        self.expects()
                    ),
                ))
            }
            _ => match &expr {
                Expr::Lit(ExprLit { lit, .. }) => self.literal(key, lit),
                Expr::Unary(ExprUnary {
                    op: UnOp::Neg(_),
                    expr: operand,
                    ..
                }) if is_literal(operand) => Err(self.negative(key, &expr)),
                other => Ok(Value::new(other.to_token_stream())),
            },
        }
    }

    fn literal(&self, key: &str, lit: &Lit) -> syn::Result<Value> {
        match (self, lit) {
            (Self::Stream | Self::Name, Lit::Str(text)) => name(key, text),
            (Self::Start, Lit::Str(text)) => self.start(key, text),
            (Self::Retries | Self::Count | Self::Milliseconds { .. }, Lit::Int(integer)) => {
                self.integer(key, integer)
            }
            (Self::Number { .. }, Lit::Int(integer)) => {
                self.number(key, lit, integer.base10_parse()?)
            }
            (Self::Number { .. }, Lit::Float(float)) => {
                self.number(key, lit, float.base10_parse()?)
            }
            _ => Err(self.wrong_kind(key, lit)),
        }
    }

    /// Whether the handler is idempotent, and by which key.
    fn idempotent(&self, key: &str, expr: &Expr) -> syn::Result<Value> {
        match expr {
            Expr::Lit(ExprLit {
                lit: Lit::Bool(written),
                ..
            }) => Ok(Value::new(written.to_token_stream())),
            Expr::Lit(ExprLit { lit, .. }) => Err(self.wrong_kind(key, lit)),
            Expr::Path(path) => Ok(Value {
                key_function: Some(path.to_token_stream()),
                ..Value::new(quote_spanned!(path.span()=> true))
            }),
            other => Err(at(
                other,
                format!(
                    "`{key}` expects {}; write a function and its name here",
                    self.expects()
                ),
            )),
        }
    }

    fn integer(&self, key: &str, lit: &syn::LitInt) -> syn::Result<Value> {
        let (least, most) = match self {
            Self::Milliseconds { least } => (*least, u64::MAX),
            Self::Count => (1, u64::from(u32::MAX)),
            _ => (0, u64::from(u32::MAX)),
        };
        let integer = match lit.base10_parse() {
            Ok(integer) if integer >= least && integer <= most => integer,
            Ok(integer) if integer < least => {
                let unit = match self {
                    Self::Milliseconds { least: 1 } => " millisecond",
                    Self::Milliseconds { .. } => " milliseconds",
                    _ => "",
                };
                return Err(at(
                    lit,
                    format!("`{key}` must be at least {least}{unit}, got {integer}"),
                ));
            }
            _ => {
                return Err(at(
                    lit,
                    format!(
                        "`{key}` must be at most {most}, got {}",
                        lit.base10_digits()
                    ),
                ));
            }
        };
        // The type is the setter's, whatever suffix was written.
        let mut plain = Literal::u64_unsuffixed(integer);
        plain.set_span(lit.span());
        Ok(Value {
            integer: Some(integer),
            ..Value::new(plain.into_token_stream())
        })
    }

    fn number(&self, key: &str, lit: &Lit, number: f64) -> syn::Result<Value> {
        let Self::Number { least, most } = *self else {
            return Err(self.wrong_kind(key, lit));
        };
        if number < least || number > most {
            let range = if most == f64::MAX {
                format!("at least {least:.1}")
            } else {
                format!("from {least:.1} to {most:.1}")
            };
            return Err(at(lit, format!("`{key}` must be {range}, got {number}")));
        }
        let mut plain = Literal::f64_unsuffixed(number);
        plain.set_span(lit.span());
        Ok(Value::new(plain.into_token_stream()))
    }

    fn negative(&self, key: &str, expr: &Expr) -> syn::Error {
        let message = match self {
            Self::Retries => {
                format!(
                    "`{key}` must not be negative; write 0 to run once, `None` to retry for ever"
                )
            }
            Self::Count => format!("`{key}` must not be negative; write 1 or more"),
            Self::Milliseconds { least } => {
                format!("`{key}` must not be negative; write {least} or more")
            }
            Self::Number { least, .. } => {
                format!("`{key}` must not be negative; write {least:.1} or more")
            }
            _ => format!("`{key}` expects {}, got a negative number", self.expects()),
        };
        at(expr, message)
    }

    fn wrong_kind(&self, key: &str, lit: &Lit) -> syn::Error {
        let got = match lit {
            Lit::Str(_) => "a string",
            Lit::ByteStr(_) | Lit::CStr(_) => "a byte string",
            Lit::Char(_) | Lit::Byte(_) => "a character",
            Lit::Int(_) => "an integer",
            Lit::Float(_) => "a number with a point",
            Lit::Bool(_) => "a boolean",
            _ => "another literal",
        };
        at(
            lit,
            format!(
                "`{key}` expects {}, got {got}; write `{key} = {}`",
                self.expects(),
                self.mended(lit)
            ),
        )
    }

    /// What was written, as it should have been written.
    fn mended(&self, lit: &Lit) -> String {
        let text = match lit {
            Lit::Str(text) => text.value(),
            Lit::Char(c) => c.value().to_string(),
            Lit::Int(integer) => integer.base10_digits().to_owned(),
            Lit::Float(float) => float.base10_digits().to_owned(),
            _ => String::new(),
        };
        let whole = text.strip_suffix(".0").unwrap_or(&text);
        match self {
            Self::Stream | Self::Name | Self::Start if !text.is_empty() => {
                format!("\"{}\"", text.escape_debug())
            }
            Self::Number { .. } if text.parse::<f64>().is_ok() => text,
            Self::Retries if text == "None" => text,
            Self::Retries | Self::Count | Self::Milliseconds { .. } if is_decimal(whole) => {
                whole.to_owned()
            }
            _ => self.example().to_owned(),
        }
    }

    /// A boolean, or the one word that there is.
    fn deletion(&self, key: &str, expr: &Expr) -> syn::Result<Value> {
        match expr {
            Expr::Lit(ExprLit {
                lit: Lit::Bool(whether),
                ..
            }) => Ok(Value::new(whether.to_token_stream())),
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) if [EVEN, "true", "false"].contains(&text.value().as_str()) => Err(at(
                text,
                format!(
                    "`{key}` takes a word; drop the quotes: `{key} = {}`",
                    text.value()
                ),
            )),
            Expr::Lit(ExprLit { lit, .. }) => Err(self.wrong_kind(key, lit)),
            Expr::Path(path) if path.path.is_ident(EVEN) => Ok(Value {
                setter: Some("delete_on_ack_even_with_other_groups"),
                ..Value::new(TokenStream::new())
            }),
            // A constant is not written like this.
            Expr::Path(path) if path.path.get_ident().is_some_and(is_word) => Err(at(
                path,
                format!(
                    "`{key}` expects {}, got `{}`",
                    self.expects(),
                    words::text(expr)
                ),
            )),
            other => Ok(Value::new(other.to_token_stream())),
        }
    }

    fn start(&self, key: &str, text: &syn::LitStr) -> syn::Result<Value> {
        let value = text.value();
        let id = value.split_once('-').unwrap_or((&value, "0"));
        if value == "$" || (is_decimal(id.0) && is_decimal(id.1)) {
            return Ok(Value {
                text: Some(value),
                ..Value::new(text.to_token_stream())
            });
        }
        Err(at(
            text,
            format!(
                "`{key}` expects {}, such as `\"1700000000000-0\"`, got \"{}\"",
                self.expects(),
                value.escape_debug()
            ),
        ))
    }

    fn crate_path(&self, key: &str, expr: &Expr) -> syn::Result<Value> {
        match expr {
            Expr::Path(path) if path.qself.is_none() => Ok(Value::new(path.to_token_stream())),
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => Err(at(
                text,
                format!(
                    "`{key}` expects {}; drop the quotes: `{key} = {}`",
                    self.expects(),
                    text.value().escape_debug()
                ),
            )),
            other => Err(at(
                other,
                format!(
                    "`{key}` expects {}; write `{key} = {}`",
                    self.expects(),
                    self.example()
                ),
            )),
        }
    }
}

fn name(key: &str, text: &syn::LitStr) -> syn::Result<Value> {
    let value = text.value();
    if value.is_empty() {
        return Err(at(text, format!("`{key}` is empty; give it a name")));
    }
    if value.chars().any(char::is_control) {
        return Err(at(
            text,
            format!(
                "`{key}` holds a control character: \"{}\"; remove it",
                value.escape_debug()
            ),
        ));
    }
    Ok(Value {
        text: Some(value),
        ..Value::new(text.to_token_stream())
    })
}

fn at(tokens: impl ToTokens, message: String) -> syn::Error {
    syn::Error::new_spanned(tokens, message)
}

/// Without parentheses and the invisible groups that `macro_rules!` leaves around its fragments.
fn plain(expr: Expr) -> Expr {
    match expr {
        Expr::Group(group) => plain(*group.expr),
        Expr::Paren(paren) => plain(*paren.expr),
        other => other,
    }
}

fn is_word(ident: &Ident) -> bool {
    ident
        .to_string()
        .chars()
        .all(|c| c.is_lowercase() || c == '_')
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Group(group) => is_literal(&group.expr),
        Expr::Paren(paren) => is_literal(&paren.expr),
        other => matches!(other, Expr::Lit(_)),
    }
}

fn is_path_to(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

fn is_decimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u64>().is_ok()
}
