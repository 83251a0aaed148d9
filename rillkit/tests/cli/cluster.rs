//! A Redis Cluster.

use rillkit_servers::Cluster;
use serde_json::json;

use crate::scene::{Ran, program, ran};

fn run(cluster: &Cluster, arguments: &[&str]) -> Ran {
    let mut command = program(arguments);
    ran(command.env("REDIS_URL", cluster.url()), "")
}

#[test]
fn streams_of_all_nodes_are_found_and_names_in_different_slots() {
    let cluster = Cluster::start(3);
    // One for each node, and one with a dead-letter queue in its own slot.
    let mut streams: Vec<String> = Vec::new();
    for number in 0.. {
        let name = format!("jobs-{number}");
        if !streams
            .iter()
            .any(|known| cluster.owner(known) == cluster.owner(&name))
        {
            streams.push(name);
        }
        if streams.len() == 3 {
            break;
        }
    }
    streams.push("{jobs}".to_owned());
    for stream in &streams {
        let ran = run(&cluster, &["publish", stream, "1"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let document = run(&cluster, &["stats", "--json"]).document();
    let found = document["streams"].as_array().unwrap().iter();
    let mut found: Vec<_> = found.map(|one| one["stream"].as_str().unwrap()).collect();
    found.sort_unstable();
    streams.sort_unstable();
    assert_eq!(found, streams);
    assert_eq!(document["server"]["mode"], "cluster");

    let row = json!({
        "group": "workers", "consumer": "a", "handler": "app::run_job", "max_retries": 3,
        "claim_idle_ms": 60_000, "backoff": 1.0, "max_backoff_ms": 900_000, "jitter": 0.0,
        "ack_policy": "nack_on_error", "concurrency": 1, "dlq": "elsewhere", "version": "0.1.0",
        "noted_at": 0,
    });
    for (stream, key) in [
        ("jobs-0", "rk:{jobs-0}:workers"),
        ("{jobs}", "rk:{jobs}:workers"),
    ] {
        let dlq = if stream == "{jobs}" {
            "{jobs}-dlq"
        } else {
            "elsewhere"
        };
        let mut row = row.clone();
        row["dlq"] = json!(dlq);
        cluster.command(key, &["HSET", key, "a", &row.to_string()]);
    }
    let ran = run(&cluster, &["check", "--json"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let document = ran.document();
    let findings = document["findings"].as_array().unwrap().iter();
    let apart: Vec<_> = findings.filter(|one| one["code"] == "slots").collect();
    assert_eq!(apart.len(), 1, "{document}");
    assert_eq!(apart[0]["stream"], "jobs-0");
}
