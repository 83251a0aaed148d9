//! Single steps of the way of a message: `cargo bench --bench parts`.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use rillkit::{Message, handlers, internals};
use rillkit_benches::handlers as handler;
use rillkit_benches::order::Order;

fn main() {
    divan::main();
}

fn body() -> String {
    serde_json::to_string(&Order::new(123_456)).expect("JSON")
}

/// The answer to a read of `count` entries, as Redis sends it.
fn reply(count: usize) -> Vec<u8> {
    let (body, mut wire) = (body(), format!("*1\r\n*2\r\n$6\r\norders\r\n*{count}\r\n"));
    for seq in 0..count {
        let id = format!("1700000000000-{seq}");
        wire += &format!(
            "*2\r\n${}\r\n{id}\r\n*2\r\n$4\r\ndata\r\n${}\r\n{body}\r\n",
            id.len(),
            body.len()
        );
    }
    wire.into_bytes()
}

#[divan::bench(args = [1, 100, 500])]
fn parse_a_reply(bencher: Bencher<'_, '_>, count: usize) {
    let wire = reply(count);
    bencher
        .counter(ItemsCount::new(count))
        .bench(|| internals::parse_reply(black_box(&wire)));
}

#[divan::bench]
fn decode_a_body(bencher: Bencher<'_, '_>) {
    let [subscription] = handlers![handler::defaults];
    let message = Message::detached("orders", "bench", 1, [("data", body())]);
    bencher.bench(|| internals::decode(subscription, black_box(&message)));
}

#[divan::bench]
fn decide_a_failure() -> bool {
    internals::decide(black_box(2))
}

#[divan::bench]
fn compute_a_delay() -> u128 {
    internals::backoff(black_box(7))
}

#[divan::bench(args = [1, 100])]
fn publish_read_and_ack_in_process(bencher: Bencher<'_, '_>, entries: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let store = runtime.block_on(internals::InProcess::new());
    bencher
        .counter(ItemsCount::new(entries))
        .bench_local(|| runtime.block_on(store.round(entries)));
}
