//! `rillkit publish`: one message, or one for each line of the standard input.

use std::io::BufRead;

use rillkit::Broker;
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

/// What has been published so far.
#[derive(Debug, Default)]
struct Sent {
    count: u64,
    last: Option<String>,
}

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
            false => output.line(&id),
        };
    }
    if ask.id.is_some() {
        let text = "`--id` is the id of one message, and the input may have many".to_owned();
        return Err(Failure::Usage(text));
    }
    let mut sent = Sent::default();
    let ended = all(broker, &ask, &mut lines(), output, &mut sent).await;
    let told = text::count(sent.count, "message");
    ended.map_err(|failure| failure.after(&format!("{told} published")))?;
    if output.json {
        let (count, last) = (sent.count, sent.last);
        let document = json!({ "stream": ask.stream, "published": count, "last_id": last });
        return output.document(&document);
    }
    output.line(&format!("{told} published"))
}

async fn all(
    broker: &Broker,
    ask: &Publish,
    lines: &mut mpsc::Receiver<Result<Box<RawValue>, String>>,
    output: &Output,
    sent: &mut Sent,
) -> Result<(), Failure> {
    let mut progress = output.progress("publishing", None);
    let mut chunk = Vec::new();
    while lines.recv_many(&mut chunk, CHUNK).await > 0 {
        let wrong = chunk.iter().position(Result::is_err);
        let rest = chunk.split_off(wrong.unwrap_or(chunk.len()));
        let bodies: Vec<_> = chunk.drain(..).flatten().collect();
        if ask.is_plain() {
            together(broker, ask, &bodies, sent).await?;
        } else {
            for body in &bodies {
                sent.last = Some(one(broker, ask, body).await?);
                sent.count += 1;
                progress.at(sent.count);
            }
        }
        if let Some(Err(why)) = rest.into_iter().next() {
            return Err(Failure::Failed(why));
        }
        progress.at(sent.count);
    }
    Ok(())
}

/// In one round trip.
async fn together(
    broker: &Broker,
    ask: &Publish,
    bodies: &[Box<RawValue>],
    sent: &mut Sent,
) -> Result<(), Failure> {
    let published = broker.publish_all(&ask.stream, bodies).await;
    let (ids, error) = match &published {
        Ok(ids) => (ids.as_slice(), None),
        Err(error) => (error.published(), Some(error.error().clone())),
    };
    sent.count += ids.len() as u64;
    sent.last = ids.last().map(ToString::to_string).or(sent.last.take());
    error.map_or(Ok(()), |error| Err(error.into()))
}

/// One message with all that was asked for; its id, or that by which it can be taken back.
async fn one(broker: &Broker, ask: &Publish, body: &RawValue) -> Result<String, Failure> {
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
    Ok(match ask.delay {
        Some(delay) => publish.delay(delay).await?.to_string(),
        None => publish.await?.to_string(),
    })
}

impl Publish {
    /// Whether a message is its body and nothing else.
    fn is_plain(&self) -> bool {
        let Self {
            header,
            maxlen,
            max_age,
            delay,
            ..
        } = self;
        header.is_empty() && maxlen.is_none() && max_age.is_none() && delay.is_none()
    }
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
