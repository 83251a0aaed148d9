use std::borrow::Cow;

use rillkit::{State, subscribe};

#[derive(serde::Deserialize)]
struct Job {
    _name: String,
}

#[subscribe(stream = "a", group = "workers")]
async fn reference(_job: &Job) {}

#[subscribe(stream = "b", group = "workers")]
async fn text(_job: &str) {}

#[subscribe(stream = "c", group = "workers")]
async fn slice(_jobs: &[Job]) {}

#[subscribe(stream = "d", group = "workers")]
async fn elided(_job: Cow<'_, str>) {}

#[subscribe(stream = "e", group = "workers")]
async fn inner(_job: Vec<Option<&str>>) {}

#[subscribe(stream = "f", group = "workers")]
async fn state(_job: Job, _names: &State<Vec<String>>) {}

fn main() {}
