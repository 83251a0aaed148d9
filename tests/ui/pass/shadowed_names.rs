//! Expansions mean what they say, whatever the names around the handler mean.

#![allow(dead_code, unused_macros, non_camel_case_types, non_upper_case_globals)]

mod shadowed {
    pub enum Result {}
    pub enum Option {}
    pub struct String;
    pub struct Box;
    pub struct Vec;
    pub struct Pin;
    pub struct Message;
    pub struct Subscription;
    pub struct Handler;
    pub struct Feed;
    pub struct message;
    pub struct entry;
    pub struct str;
    pub struct u32;
    pub const Ok: u8 = 1;
    pub const Err: u8 = 1;
    pub const Some: u8 = 1;
    pub const None: u8 = 1;
    pub const SUBSCRIPTION: &::core::primitive::str = "workers";
    pub trait Into {}
    pub trait From {}
    pub trait Send {}
    pub trait Fn {}
    pub mod std {}
    pub mod core {}
    pub mod alloc {}
    pub mod rillkit {}
    pub mod inventory {}

    macro_rules! module_path {
        () => {
            compile_error!("shadowed")
        };
    }
    macro_rules! file {
        () => {
            compile_error!("shadowed")
        };
    }
    macro_rules! line {
        () => {
            compile_error!("shadowed")
        };
    }

    #[::rillkit::subscribe(stream = "a", group = SUBSCRIPTION, max_retries = None, ack_policy = manual)]
    pub async fn named(_body: ::std::vec::Vec<::std::string::String>, _message: ::rillkit::Message) {}

    const entries: ::rillkit::Stream<::core::primitive::u64> = ::rillkit::Stream::new("b");

    #[::rillkit::subscribe(stream = entries, group = "workers", backoff = 2)]
    pub async fn typed(
        _body: ::core::primitive::u64,
        _state: ::rillkit::State<String>,
    ) -> ::core::result::Result<(), ::std::string::String> {
        ::core::result::Result::Ok(())
    }
}

fn main() {
    let [named, typed] = rillkit::handlers![shadowed::named, shadowed::typed];
    assert_eq!((named.stream(), named.group()), ("a", "workers"));
    assert_eq!((typed.stream(), typed.dlq_name()), ("b", "b-dlq".to_owned()));
}
