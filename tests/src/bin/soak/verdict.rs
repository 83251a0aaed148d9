//! Every message of the whole run, and the numbers that must add up.

use std::collections::BTreeMap;

use crate::holdings::Holdings;
use crate::invariants::{Case, End};
use crate::ledger::{Key, Ledger, Published};
use crate::plan::PLANS;
use crate::story::story;

/// Prints the numbers and returns what is wrong.
pub(crate) fn all(ledger: &Ledger, holdings: &Holdings) -> Vec<String> {
    let mut wrongs = publications(ledger, holdings);
    for (stream, left) in &holdings.left {
        if *left > 0 {
            wrongs.push(format!(
                "{stream}: {left} messages are pending or unread at the end"
            ));
        }
    }
    let mut ends: BTreeMap<(&str, End), usize> = BTreeMap::new();
    let mut reasons: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let (mut runs, mut repeats) = (0, 0);
    for (key, ids) in &holdings.entries {
        let plan = PLANS.iter().find(|plan| plan.stream == key.0);
        let letters = holdings.letters.get(&(key.0.clone(), ids[0].clone()));
        let case = Case {
            ledger,
            plan: plan.expect("a stream of the plan"),
            key,
            id: &ids[0],
            runs: ledger.runs.get(key).map_or(&[], Vec::as_slice),
            letters: letters.map_or(&[], Vec::as_slice),
        };
        runs += case.runs.len();
        repeats += case.repeats();
        *ends.entry((case.plan.stream, case.end())).or_default() += 1;
        for letter in case.letters {
            *reasons
                .entry((case.plan.stream, &letter.reason))
                .or_default() += 1;
        }
        let wrong = case.wrongs();
        wrongs.extend(wrong.iter().map(|wrong| story(ledger, key, wrong)));
    }
    for ((stream, end), count) in &ends {
        println!("{stream:8} {count:6} {end:?}");
    }
    for ((stream, reason), count) in &reasons {
        println!("{stream:8} {count:6} dead by {reason}");
    }
    println!("{runs} runs, {repeats} of them repeat what was not failed");
    let at_most_once = ends.get(&("first", End::LostAtMostOnce)).copied();
    let kills = ledger
        .workers
        .iter()
        .filter(|worker| worker.killed.is_some());
    let (lost, kills) = (at_most_once.unwrap_or(0), kills.count());
    if lost > kills {
        wrongs.push(format!(
            "{lost} messages were lost at most once, by {kills} kills"
        ));
    }
    wrongs.extend(strangers(ledger, holdings));
    wrongs
}

/// What the publisher was told, and what is there.
fn publications(ledger: &Ledger, holdings: &Holdings) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut counts = [0; 4];
    for (key, told) in &ledger.published {
        let ids = holdings.entries.get(key).map_or(&[][..], Vec::as_slice);
        let (place, is_right) = match (told, ids) {
            (Published::Surely(id), [there]) => (0, id == there),
            (Published::Surely(_), _) => (0, false),
            (Published::Perhaps, []) => (1, true),
            (Published::Perhaps, ids) => (2, ids.len() == 1),
            (Published::Not, ids) => (3, ids.is_empty()),
        };
        counts[place] += 1;
        if !is_right {
            let wrong = format!("the publisher was told {told:?}, and there is {ids:?}");
            wrongs.push(story(ledger, key, &wrong));
        }
    }
    let [surely, absent, present, not] = counts;
    println!(
        "published: {surely} surely, {present} unknown and there, {absent} unknown and not, {not} refused"
    );
    wrongs
}

/// Runs and letters of messages that are not there.
fn strangers(ledger: &Ledger, holdings: &Holdings) -> Vec<String> {
    let known = |key: &&Key| !holdings.entries.contains_key(*key);
    let strange = ledger.runs.keys().filter(known);
    let mut wrongs: Vec<_> = strange
        .map(|key| story(ledger, key, "it ran and is not there"))
        .collect();
    for (stream, original) in holdings.letters.keys() {
        let is_it = |(key, ids): (&Key, &Vec<String>)| key.0 == *stream && ids.contains(original);
        if !holdings.entries.iter().any(is_it) {
            wrongs.push(format!(
                "{stream}: a letter of {original}, which is not there"
            ));
        }
    }
    wrongs
}
