//! A worker, and nothing more. It runs on the server that the environment names, until Ctrl-C;
//! `cargo run --example publish`, in another terminal, gives it something to do.

use rillkit::subscribe;
use serde::Deserialize;

#[derive(Deserialize)]
struct Greeting {
    name: String,
}

#[subscribe(stream = "greetings", group = "greeters")]
async fn greet(greeting: Greeting) {
    println!("hello {}", greeting.name);
}

#[tokio::main]
async fn main() -> Result<(), rillkit::Error> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    rillkit::run().await
}
