//! The `#[subscribe]` attribute of RillKit. Use it through the crate `rillkit`, which re-exports it.

mod errors;
mod expand;
mod keys;
mod policy;
mod settings;
mod signature;
mod types;
mod values;
mod words;

use proc_macro::TokenStream;

/// Registers an async function, one that is not a method, as the handler of a stream's messages.
///
/// ```
/// use rillkit::{Message, subscribe};
///
/// #[derive(serde::Deserialize)]
/// struct Job {
///     name: String,
/// }
///
/// #[subscribe(stream = "jobs", group = "workers", max_retries = 2)]
/// async fn run_job(job: Job, msg: Message) -> Result<(), std::io::Error> {
///     println!("{} is delivery {}", job.name, msg.deliveries());
///     Ok(())
/// }
/// ```
///
/// The first parameter is the body, decoded from JSON, or `Message` for the entry undecoded; further
/// ones are `Message`, `State<T>` and `Tx`. The function returns `()` or `Result<(), E>` with any error
/// type. It is left as it is written, with all its attributes, so a unit test can call it.
///
/// | key | value | default |
/// | --- | --- | --- |
/// | `stream` | a name, or a `const JOBS: Stream<Job>` | required |
/// | `group` | a name | required |
/// | `max_retries` | an integer, or `None` to retry for ever | `3` |
/// | `claim_idle_ms` | the lease and the first retry delay, at least 100 | `60_000` |
/// | `backoff` | growth of the retry delay, at least 1.0 | `1.0` |
/// | `max_backoff_ms` | cap of the retry delay, at least `claim_idle_ms` | the larger of `900_000` and `claim_idle_ms` |
/// | `jitter` | share that is added to a delay at random, 0.0 to 1.0 | `0.0` |
/// | `block_ms` | the longest blocking read, above 0 | `5_000` |
/// | `ack_policy` | `nack_on_error`, `ack_always`, `ack_first` or `manual` | `nack_on_error` |
/// | `delete_on_ack` | `true`: what is acked is deleted from the stream in the same step, and the start is refused where the stream has other groups; `even_with_other_groups`: it is not | `false` |
/// | `concurrency` | how many messages at once in this process, at least 1 | `1` |
/// | `timeout_ms` | the longest run, above 0 | none |
/// | `idempotent` | `true`: once by the field `rk-id`, else by the entry; or a function from `&Body` to the key | `false` |
/// | `idempotent_for_ms` | how long a key stays done, above 0, and at least as long as retries can take | `86_400_000` |
/// | `dlq` | a name | `<stream>-dlq` |
/// | `consumer` | a name | one of its own for each start |
/// | `start` | `"0"` (from the beginning), `"$"` (new ones alone) or an entry id; looked at where the group is created | `"0"` |
/// | `crate` | the path of `rillkit`, where it is renamed or re-exported | `::rillkit` |
///
/// Values are expressions, so constants work: names are `&'static str`, counts `u32`, milliseconds
/// `u64`, `backoff` and `jitter` `f64`. A value out of range does not compile, literal or constant.
///
/// Beside the function the attribute adds a type of the same name, by which `handlers![run_job]`
/// lists it. A struct or a module of that name in the same place is therefore an error.
#[proc_macro_attribute]
pub fn subscribe(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::subscribe(attribute.into(), &item.into()).into()
}
