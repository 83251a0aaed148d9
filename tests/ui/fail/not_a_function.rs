use rillkit::subscribe;

#[subscribe(stream = "jobs", group = "workers")]
pub struct Job;

#[subscribe(stream = "jobs", group = "workers")]
impl Job {}

#[subscribe(stream = "jobs", group = "workers")]
mod jobs {}

#[subscribe(stream = "jobs", group = "workers")]
trait Work {}

#[subscribe(stream = "jobs", group = "workers")]
const JOBS: u8 = 1;

fn main() {}
