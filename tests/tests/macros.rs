//! What `#[subscribe]` accepts, and what it says to each mistake.
//!
//! `ui/fail` has one file for each rule that can be broken, with the compiler's whole answer beside
//! it. After a change of the wording, `TRYBUILD=overwrite cargo test -p rillkit-tests --test macros`
//! writes the answers anew; read them as the one who made the mistake would.

#[test]
fn every_mistake_is_answered_with_its_cure() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}

#[test]
fn handlers_compile_wherever_they_are() {
    trybuild::TestCases::new().pass("ui/pass/*.rs");
}
