//! A hundred thousand letters: what is asked of the server does not depend on them.

use rillkit::dlq::Filter;

use crate::place::Place;
use crate::process::Process;
use rillkit_servers::Server;

const MANY: usize = 100_000;

/// How often the server has run this command.
fn calls(place: &Place, command: &str) -> u64 {
    let stats = place.ask(&["INFO", "commandstats"]).text();
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok())
        .unwrap_or(0)
}

async fn fill(place: &Place) {
    // Entries with one field, which are letters of the stream too.
    let bodies: Vec<_> = (0..MANY).collect();
    let added = place.broker.publish_all("jobs-dlq", &bodies).await;
    assert_eq!(added.expect("added").len(), MANY);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_costs_the_same_wherever_it_is() {
    let server = Server::start();
    let place = Place::on(&server);
    fill(&place).await;
    let dlq = place.dlq();
    assert_eq!(dlq.len().await, Ok(MANY as u64));
    assert_eq!(calls(&place, "xrange"), 0);

    let first = dlq.list().count(50).await.expect("a page");
    let (mut after, mut pages) = (first.next.expect("a next page"), 1);
    while pages < 20 {
        let page = dlq.list().count(50).after(after).await.expect("a page");
        after = page.next.expect("a next page");
        pages += 1;
    }
    assert_eq!(calls(&place, "xrange"), 20);
    let last = dlq.list().newest_first().count(50).await.expect("a page");
    assert_eq!(last.letters[0].data(), Some(&b"99999"[..]));
    assert_eq!(calls(&place, "xrevrange"), 1);
    let from_the_middle = Filter::new().from(last.letters[40].id());
    let page = dlq.list().matching(from_the_middle).await.expect("a page");
    assert_eq!(page.letters.len(), 41);
    let id = last.letters[25].id();
    assert_eq!(
        dlq.get(id)
            .await
            .expect("an answer")
            .map(|letter| letter.id()),
        Some(id)
    );
    assert_eq!(calls(&place, "xrange"), 22);

    let before = calls(&place, "xrange");
    let stats = dlq.stats().await.expect("statistics");
    assert_eq!(calls(&place, "xrange") - before, 1001);
    assert_eq!(
        (stats.count, stats.newest),
        (MANY as u64, Some(last.letters[0].id()))
    );
    let purged = dlq.purge().all().await.expect("purged");
    assert_eq!(purged.deleted, MANY as u64);
    assert!(calls(&place, "xdel") <= 1001, "{}", calls(&place, "xdel"));
    assert_eq!(place.length("jobs-dlq"), 0);
}

/// As long as a kilobyte each, they would not fit into what the process is allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counting_takes_no_more_memory_for_more_letters() {
    let server = Server::start();
    let place = Place::on(&server);
    let body = "x".repeat(1000);
    let bodies = vec![body.as_str(); MANY];
    let added = place.broker.publish_all("jobs-dlq", bodies).await;
    assert_eq!(added.expect("added").len(), MANY);
    let mut process = Process::with(&place, "jobs", &[("ACT", "count_letters")]);
    assert!(process.wait().success(), "{}", process.error());
    assert!(
        process.has_said(&format!("told {MANY}")),
        "{:?}",
        process.said()
    );
    let said = process.said();
    let peak = said.iter().find_map(|line| line.strip_prefix("peak "));
    let peak: usize = peak.and_then(|peak| peak.parse().ok()).expect("a number");
    assert!(peak < 50_000, "{peak} KiB");
}
