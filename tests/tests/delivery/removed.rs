//! Messages that somebody takes out of the group while a worker has them in hand.

use rillkit::{HandlerError, Message, State, handlers, subscribe};
use rillkit_servers::Server;
use rillkit_tests::Job;

use crate::lines::Lines;
use crate::place::{Journal, Place, act, until};

#[subscribe(stream = "jobs", group = "workers", claim_idle_ms = 300)]
async fn handle(job: Job, msg: Message, journal: State<Journal>) -> Result<(), HandlerError> {
    act(job, msg, journal).await
}

/// Removes the consumer that has this entry, and with it all that is pending there.
fn remove_owner(place: &Place, id: &str) {
    let pending = place.pending("jobs", "workers");
    let row = pending.iter().find(|row| row.0 == id);
    let owner = &row.expect("pending").1;
    place.ask(&["XGROUP", "DELCONSUMER", "jobs", "workers", owner]);
}

#[tokio::test]
async fn what_is_removed_in_a_workers_hand_is_said_and_counted_once() {
    let (place, lines) = (Place::redis(), Lines::listen());
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    // A wait of 800 ms is held by touches, one of 300 ms is not.
    for (name, does, ends) in [
        ("waits", "err,ok", "retry"),
        ("waits long", "later:800,ok", "retry"),
        ("runs", "sleep:200+err,ok", "retry"),
        ("rejects", "sleep:200+reject", "dead letter"),
    ] {
        let id = place.publish("jobs", name, does).await;
        until("it runs", || !place.journal.runs(name).is_empty()).await;
        if name.starts_with("waits") {
            until("it waits", || {
                !lines.with(&format!("failed for message {id}")).is_empty()
            })
            .await;
        }
        remove_owner(&place, &id);
        let words =
            format!(" WARN rillkit: message {id} is no longer pending, its {ends} is dropped: ");
        until("it is said", || lines.with(&words).len() == 1).await;
        assert_eq!(place.journal.deliveries(name), [1]);
    }
    assert_eq!(place.length("jobs-dlq"), 0);
    let health = running.health().handlers.remove(0);
    assert_eq!(
        (health.not_pending, health.lost_leases, health.in_hand),
        (4, 0, 0)
    );
    // What is handled meanwhile is done, and what comes afterwards is handled.
    let id = place.publish("jobs", "ends well", "sleep:200").await;
    until("it runs", || !place.journal.runs("ends well").is_empty()).await;
    remove_owner(&place, &id);
    place.publish("jobs", "next", "ok").await;
    until("it is handled", || place.journal.ended() == 6).await;
    running.stop().await;
    assert_eq!(
        lines.with("is no longer pending").len(),
        4,
        "{:?}",
        lines.all()
    );
}

#[tokio::test]
async fn what_a_worker_may_no_longer_do_beside_reading_is_said() {
    let (server, lines) = (Server::start(), Lines::listen());
    let place = Place::on(&server);
    let broker = place.worker(handlers![handle]);
    let running = broker.start().await.expect("started");
    place.ask(&["ACL", "SETUSER", "default", "-xpending"]);
    until("it is said", || {
        !lines
            .with(" WARN rillkit: looking for what is due fails and is tried again: ")
            .is_empty()
    })
    .await;
    let health = running.health().handlers.remove(0);
    let (error, _) = health.last_error.expect("an error");
    assert!(error.contains("xpending"), "{error}");
    running.stop().await;
}
