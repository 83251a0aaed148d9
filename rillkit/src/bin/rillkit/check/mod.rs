//! `rillkit check`: compares what runs with what the server holds, and says how to mend what does
//! not fit. `snapshot` looks, and `findings` judges what was seen.

mod findings;
mod snapshot;

use rillkit::Broker;
use serde_json::json;

use self::findings::{Finding, Severity};
use self::snapshot::Snapshot;
use crate::args::Check;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::{self, BAD, FAINT, GOOD, ODD};

pub(crate) async fn run(broker: &Broker, ask: &Check, output: &mut Output) -> Result<(), Failure> {
    let names = match ask.streams.as_slice() {
        [] => broker.streams().await?,
        named => named.to_vec(),
    };
    let snapshot = Snapshot::take(broker, &names, output).await?;
    let findings = findings::of(&snapshot);
    if output.json {
        let streams: Vec<_> = snapshot.streams.iter().map(|one| &one.name).collect();
        let server = &snapshot.server;
        let document = json!({ "server": server, "streams": streams, "findings": findings });
        output.document(&document)?;
    } else {
        for finding in &findings {
            show(finding, output)?;
        }
        let looked = text::count(snapshot.streams.len() as u64, "stream");
        let summary = format!("{looked} looked at, {}", told(&findings));
        output.note(&summary);
    }
    match findings.iter().any(|one| one.severity > Severity::Note) {
        true => Err(Failure::Findings),
        false => Ok(()),
    }
}

fn show(finding: &Finding, output: &mut Output) -> Result<(), Failure> {
    let (style, word) = match finding.severity {
        Severity::Error => (BAD, "error"),
        Severity::Warning => (ODD, "warning"),
        Severity::Note => (FAINT, "note"),
    };
    let place = finding.place();
    let (words, cure) = (text::plain(&finding.words), text::plain(&finding.cure));
    output.line(&format!("{style}{word}{style:#} {place}: {words}"))?;
    output.line(&format!("    {GOOD}{cure}{GOOD:#}"))
}

fn told(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing to mend".to_owned();
    }
    let number = |severity| {
        findings
            .iter()
            .filter(|one| one.severity == severity)
            .count() as u64
    };
    let mut told = Vec::new();
    for (severity, what) in [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Note, "note"),
    ] {
        if number(severity) > 0 {
            told.push(text::count(number(severity), what));
        }
    }
    told.join(", ")
}
