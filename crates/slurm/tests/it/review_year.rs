//! A made-up year of accounting whose waste is known: what `review` finds of it, and what its advice would have cost later.

#![expect(clippy::disallowed_methods, reason = "reads the data set")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::path::Path;

use serde_json::Value;

use hsched_model::Time;
use hsched_slurm::accounting::Accounting;
use hsched_slurm::review::{NameReview, Quantity, review};
use hsched_slurm::time;

fn year() -> Option<(Vec<NameReview>, Accounting, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/review");
    let (Ok(text), Ok(truth)) =
        (std::fs::read(folder.join("sacct.txt")), std::fs::read(folder.join("truth.json")))
    else {
        println!("skipped: no ../shared/data/review");
        return None;
    };
    let accounting = Accounting::parse(&text, |text| time::without_zone(text).map(Time)).expect("a header");
    let truth = serde_json::from_slice(&truth).expect("JSON");
    Some((review(&accounting.runs), accounting, truth))
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().filter_map(Value::as_f64).collect()
}

fn is_near(found: Option<f64>, expected: &Value, part: f64) -> bool {
    match (found, expected.as_f64()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= part * expected.abs() + 1e-9,
        (found, expected) => found.is_none() == expected.is_none(),
    }
}

#[test]
fn what_was_is_counted() {
    let Some((names, accounting, truth)) = year() else { return };
    let all = truth["names"].as_object().expect("names");
    assert_eq!(names.len(), all.len());
    let odd: Vec<String> = accounting.odd.iter().map(|row| row.line.to_string()).collect();
    assert_eq!(odd, truth["odd"].as_object().expect("odd").keys().cloned().collect::<Vec<_>>());
    for own in &names {
        let expected = &all[&own.name]["expect"];
        let failures = serde_json::to_value(&own.failures).expect("JSON");
        assert_eq!(
            (own.runs as u64, failures),
            (expected["runs"].as_u64().expect("runs"), expected["failures"].clone())
        );
        let (time, memory, cpus) = (&expected["time"], &expected["memory"], &expected["cpus"]);
        let gpus = own.gpus.asked.filter(|gpus| *gpus > 0.0);
        for (what, found, expected, part) in [
            ("limit", own.time.asked, &time["limit_s"], 0.0),
            ("time at 50 %", own.time.used_p50, &time["used_p50_s"], 0.02),
            ("time at 95 %", own.time.used_p95, &time["used_p95_s"], 0.02),
            ("memory", own.memory.asked, &memory["asked_mib"], 0.001),
            ("memory at 50 %", own.memory.used_p50, &memory["used_p50_mib"], 0.02),
            ("memory at 95 %", own.memory.used_p95, &memory["used_p95_mib"], 0.02),
            ("CPUs", own.cpus.asked, &cpus["asked"], 0.0),
            ("CPUs at 95 %", own.cpus.used_p95, &cpus["used_p95"], 0.03),
            ("GPUs", gpus.or(Some(0.0)), &expected["gpus"]["asked"], 0.0),
            // The truth has one decimal.
            ("waits", Some((10.0 * own.waited_h).round() / 10.0), &expected["waited_h"], 0.001),
        ] {
            assert!(is_near(found, expected, part), "{}: {what}: {found:?}, not {expected}", own.name);
        }
        let idle = &expected["gpus"]["idle_share"];
        let off = own.idle_share.zip(idle.as_f64()).map(|(found, expected)| (found - expected).abs());
        assert!(
            off.is_some_and(|off| off < 0.01) || own.idle_share.is_none() && idle.is_null(),
            "{}: {off:?}",
            own.name
        );
    }
}

/// The kinds of the data set: far too large, too small, right, and too few runs to say anything.
#[test]
fn waste_is_found_and_nothing_else_is_changed() {
    let Some((names, _, truth)) = year() else { return };
    let check = |own: &NameReview, kind: &str, quantity: &Quantity, what: &str, part: f64| {
        let (asked, new) = (quantity.asked.unwrap_or(0.0), quantity.recommended);
        let is_right = match kind {
            "over" => new.is_some_and(|new| new <= asked - part * (asked - quantity.used_p95.expect("use"))),
            "under" => new.is_some_and(|new| (1.05 * asked..=3.0 * asked).contains(&new)),
            "fine" | "few" | "unknown" | "none" => new.is_none(),
            "fewer" => new == Some(1.0),
            _ => true,
        };
        assert!(is_right, "{}: {what} is {kind}, but {new:?} is recommended for {asked}", own.name);
    };
    for own in &names {
        let known = &truth["names"][&own.name];
        let kind = |what: &str| known["kinds"][what].as_str().expect("a kind");
        let part = if known["traits"].as_array().expect("traits").iter().any(|own| own == "tail") {
            0.3
        } else {
            0.6
        };
        check(own, kind("time"), &own.time, "time", part);
        check(own, kind("memory"), &own.memory, "memory", part);
        check(own, kind("cpus"), &own.cpus, "CPUs", part);
        check(own, kind("gpus"), &own.gpus, "GPUs", part);
    }
}

#[test]
fn advice_costs_few_runs() {
    let Some((names, _, truth)) = year() else { return };
    for own in &names {
        assert!(own.cut_share() <= 0.02, "{}: {} of {}", own.name, own.cut, own.ended);
        let later = &truth["names"][&own.name]["future"];
        let limit = own.time.recommended.unwrap_or(f64::INFINITY);
        let memory = own.memory.recommended.unwrap_or(f64::INFINITY);
        let further = numbers(&later["s"]).into_iter().zip(numbers(&later["mib"]));
        let lost = further.filter(|(seconds, mib)| *seconds > limit || *mib > memory).count();
        assert!(lost <= 3, "{}: {lost} of 60 further runs", own.name);
    }
}
