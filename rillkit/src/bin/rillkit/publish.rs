//! `rillkit publish`: one message, or one for each line of the standard input.

use std::io::BufRead;

use rillkit::{Broker, EntryId};
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::args::Publish;
use crate::failure::Failure;
use crate::output::Output;
use crate::text;

/// Lines published in one round trip, at most.
const CHUNK: usize = 1000;

pub(crate) async fn run(broker: &Broker, ask: Publish, output: &mut Output) -> Result<(), Failure> {
    if ask.body != "-" {
        let body = json_text(&ask.body).map_err(|why| {
            Failure::Usage(format!(
                "the body is not JSON: {why}; a text needs quotes of its own, as in '\"text\"'"
            ))
        })?;
        let id = one(broker, &ask, &body).await?;
        return match output.json {
            true => output.document(&json!({ "stream": ask.stream, "id": id })),
            false => output.line(&id.to_string()),
        };
    }
    if ask.id.is_some() {
        let text = "`--id` is the id of one message, and the input may have many".to_owned();
        return Err(Failure::Usage(text));
    }
    let mut lines = lines();
    let (mut published, mut last) = (0, None);
    let ended = all(broker, &ask, &mut lines, output, &mut published, &mut last).await;
    if let Err(Failure::Failed(why)) = ended {
        let before = text::count(published, "message");
        return Err(Failure::Failed(format!("{why} ({before} published)")));
    }
    ended?;
    if output.json {
        let document = json!({ "stream": ask.stream, "published": published, "last_id": last });
        return output.document(&document);
    }
    output.line(&format!("{} published", text::count(published, "message")))
}

async fn all(
    broker: &Broker,
    ask: &Publish,
    lines: &mut mpsc::Receiver<Result<Box<RawValue>, String>>,
    output: &Output,
    published: &mut u64,
    last: &mut Option<EntryId>,
) -> Result<(), Failure> {
    let mut progress = output.progress("publishing", None);
    let mut chunk = Vec::new();
    while lines.recv_many(&mut chunk, CHUNK).await > 0 {
        let wrong = chunk.iter().position(Result::is_err);
        let rest = chunk.split_off(wrong.unwrap_or(chunk.len()));
        let bodies: Vec<_> = chunk.drain(..).flatten().collect();
        if ask.header.is_empty() && ask.maxlen.is_none() && ask.max_age.is_none() {
            let ids = broker.publish_all(&ask.stream, bodies.iter()).await;
            let ids = ids.map_err(|error| {
                *published += error.published().len() as u64;
                Failure::from(error.error().clone())
            })?;
            *published += ids.len() as u64;
            *last = ids.last().copied().or(*last);
        } else {
            for body in &bodies {
                *last = Some(one(broker, ask, body).await?);
                *published += 1;
            }
        }
        if let Some(Err(why)) = rest.into_iter().next() {
            return Err(Failure::Failed(why));
        }
        progress.at(*published);
    }
    Ok(())
}

async fn one(broker: &Broker, ask: &Publish, body: &RawValue) -> Result<EntryId, Failure> {
    let mut publish = broker.publish(&ask.stream, body);
    for (name, value) in &ask.header {
        publish = publish.header(name, value);
    }
    if let Some(id) = &ask.id {
        publish = publish.id(id);
    }
    if let Some(length) = ask.maxlen {
        publish = publish.maxlen(length);
    }
    if let Some(age) = ask.max_age {
        publish = publish.max_age(age);
    }
    Ok(publish.await?)
}

/// The lines of the standard input, as they come; those that are empty are left out.
fn lines() -> mpsc::Receiver<Result<Box<RawValue>, String>> {
    let (sender, lines) = mpsc::channel(2 * CHUNK);
    std::thread::spawn(move || {
        for (number, line) in std::io::stdin().lock().lines().enumerate() {
            let number = number + 1;
            let body = match line {
                Ok(line) if line.trim().is_empty() => continue,
                Ok(line) => json_text(&line)
                    .map_err(|why| format!("line {number} of the input is not JSON: {why}")),
                Err(why) => Err(format!("line {number} of the input cannot be read: {why}")),
            };
            let wrong = body.is_err();
            if sender.blocking_send(body).is_err() || wrong {
                return;
            }
        }
    });
    lines
}

/// The text as it is, once it is known to be JSON.
pub(crate) fn json_text(text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    serde_json::from_str::<IgnoredAny>(text)?;
    RawValue::from_string(text.trim().to_owned())
}
