//! Nothing of the prelude is taken for granted.

#![no_implicit_prelude]

const JOBS: ::rillkit::Stream<::std::string::String> = ::rillkit::Stream::new("jobs");

#[::rillkit::subscribe(stream = JOBS, group = "workers", max_retries = None)]
async fn run_job(
    _job: ::std::string::String,
    _message: ::rillkit::Message,
    _state: ::rillkit::State<u64>,
) -> ::std::result::Result<(), ::rillkit::HandlerError> {
    ::std::result::Result::Ok(())
}

#[::rillkit::subscribe(stream = "mails", group = "workers")]
async fn send(_message: ::rillkit::Message) {}

fn main() {
    let [run_job, send] = ::rillkit::handlers![run_job, send];
    ::std::assert_eq!(run_job.name(), "run_job");
    ::std::assert_eq!(send.name(), "send");
}
