//! A synthetic year of accounting with known waste: the findings of `review`, and the later cost of its
//! advice.

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
    for name_review in &names {
        let expected = &all[&name_review.name]["expect"];
        let failures = serde_json::to_value(&name_review.failures).expect("JSON");
        assert_eq!(
            (name_review.runs as u64, failures),
            (expected["runs"].as_u64().expect("runs"), expected["failures"].clone())
        );
        let (time, memory, cpus) = (&expected["time"], &expected["memory"], &expected["cpus"]);
        let gpus = name_review.gpus.asked.filter(|gpus| *gpus > 0.0);
        for (what, found, expected, part) in [
            ("limit", name_review.time.asked, &time["limit_s"], 0.0),
            ("time at 50 %", name_review.time.used_p50, &time["used_p50_s"], 0.02),
            ("time at 95 %", name_review.time.used_p95, &time["used_p95_s"], 0.02),
            ("memory", name_review.memory.asked, &memory["asked_mib"], 0.001),
            ("memory at 50 %", name_review.memory.used_p50, &memory["used_p50_mib"], 0.02),
            ("memory at 95 %", name_review.memory.used_p95, &memory["used_p95_mib"], 0.02),
            ("CPUs", name_review.cpus.asked, &cpus["asked"], 0.0),
            ("CPUs at 95 %", name_review.cpus.used_p95, &cpus["used_p95"], 0.03),
            ("GPUs", gpus.or(Some(0.0)), &expected["gpus"]["asked"], 0.0),
            // The reference values have one decimal.
            ("waits", Some((10.0 * name_review.waited_h).round() / 10.0), &expected["waited_h"], 0.001),
        ] {
            assert!(
                is_near(found, expected, part),
                "{}: {what}: {found:?}, not {expected}",
                name_review.name
            );
        }
        let idle = &expected["gpus"]["idle_share"];
        let off = name_review.idle_share.zip(idle.as_f64()).map(|(found, expected)| (found - expected).abs());
        assert!(
            off.is_some_and(|off| off < 0.01) || name_review.idle_share.is_none() && idle.is_null(),
            "{}: {off:?}",
            name_review.name
        );
    }
}

/// Checks the recommendations for each kind of request in the data set, such as requests that are far too
/// large, too small or right, and requests with too few runs for advice.
#[test]
fn waste_is_found_and_nothing_else_is_changed() {
    let Some((names, _, truth)) = year() else { return };
    let check = |name_review: &NameReview, kind: &str, quantity: &Quantity, what: &str, part: f64| {
        let (asked, new) = (quantity.asked.unwrap_or(0.0), quantity.recommended);
        let is_right = match kind {
            "over" => new.is_some_and(|new| new <= asked - part * (asked - quantity.used_p95.expect("use"))),
            "under" => new.is_some_and(|new| (1.05 * asked..=3.0 * asked).contains(&new)),
            "fine" | "few" | "unknown" | "none" => new.is_none(),
            "fewer" => new == Some(1.0),
            _ => true,
        };
        assert!(is_right, "{}: {what} is {kind}, but {new:?} is recommended for {asked}", name_review.name);
    };
    for name_review in &names {
        let known = &truth["names"][&name_review.name];
        let kind = |what: &str| known["kinds"][what].as_str().expect("a kind");
        let part = if known["traits"].as_array().expect("traits").iter().any(|value| value == "tail") {
            0.3
        } else {
            0.6
        };
        check(name_review, kind("time"), &name_review.time, "time", part);
        check(name_review, kind("memory"), &name_review.memory, "memory", part);
        check(name_review, kind("cpus"), &name_review.cpus, "CPUs", part);
        check(name_review, kind("gpus"), &name_review.gpus, "GPUs", part);
    }
}

#[test]
fn advice_costs_few_runs() {
    let Some((names, _, truth)) = year() else { return };
    for name_review in &names {
        assert!(
            name_review.cut_share() <= 0.02,
            "{}: {} of {}",
            name_review.name,
            name_review.cut,
            name_review.ended
        );
        let later = &truth["names"][&name_review.name]["future"];
        let limit = name_review.time.recommended.unwrap_or(f64::INFINITY);
        let memory = name_review.memory.recommended.unwrap_or(f64::INFINITY);
        let further = numbers(&later["s"]).into_iter().zip(numbers(&later["mib"]));
        let lost = further.filter(|(seconds, mib)| *seconds > limit || *mib > memory).count();
        assert!(lost <= 3, "{}: {lost} of 60 further runs", name_review.name);
    }
}
