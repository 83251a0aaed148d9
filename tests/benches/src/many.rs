//! Two hundred handlers in one program, each on a stream of its own.

use crate::order::{GROUP, Order};

/// The name that all two hundred functions have.
pub const HANDLER: &str = "one_of_many";

macro_rules! modules {
    ($($outer:ident)*) => {
        /// Their streams.
        #[must_use]
        pub fn streams() -> Vec<&'static str> {
            [$($outer::STREAMS),*].concat()
        }

        $(mod $outer {
            twenty! { b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 }
        })*
    };
}

macro_rules! twenty {
    ($($inner:ident)*) => {
        pub(super) const STREAMS: [&str; 20] = [$($inner::ORDERS.name()),*];

        $(mod $inner {
            use rillkit::{Stream, subscribe};

            pub(super) const ORDERS: Stream<super::super::Order> = Stream::new(module_path!());

            #[subscribe(stream = ORDERS, group = super::super::GROUP)]
            async fn one_of_many(order: super::super::Order) {
                let _ = crate::meter::Meter::report(order.id);
            }
        })*
    };
}

modules! { a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 }
