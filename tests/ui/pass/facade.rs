//! The crate can be reached through another one.

mod facade {
    pub use rillkit as rk;
}

const JOBS: facade::rk::Stream<String> = facade::rk::Stream::new("jobs");

#[facade::rk::subscribe(crate = crate::facade::rk, stream = JOBS, group = "workers")]
async fn absolute(_job: String, _message: facade::rk::Message) {}

#[facade::rk::subscribe(crate = facade::rk, stream = "mails", group = "workers", ack_policy = manual)]
async fn relative(_message: facade::rk::Message) {}

fn main() {
    let listed = facade::rk::handlers![absolute, relative];
    assert_eq!(listed.map(|handler| handler.stream()), ["jobs", "mails"]);
}
