//! `hsched plan` with deadlines.

use serde_json::json;

use crate::cli_plan::{PLAN, near};
use crate::sandbox::Sandbox;

#[test]
fn with_the_objective_deadlines_few_late_jobs_come_before_the_mean() {
    let jobs = |first: &str| {
        let with_deadline =
            crate::sandbox::JOBS.replacen("command: train", &format!("deadline: {first}, command: train"), 1);
        with_deadline.replace("t4: 884}, command", "t4: 884}, deadline: 12000s, command")
    };
    let plan = |first: &str, options: &str| {
        let sandbox = Sandbox::new().file("jobs.yaml", jobs(first));
        sandbox.run(&format!("{PLAN} {options} --format json")).exits(0).json()
    };
    // With the lowest mean, one of the jobs is late; if both are on time, ResNet-18 has three GPUs.
    let mean = plan("13000s", "");
    near(&mean["deadlines_met"], 0.5);
    let by_deadlines = plan("13000s", "--objective deadlines");
    near(&by_deadlines["deadlines_met"], 1.0);
    near(&by_deadlines["mean_jct_s"], f64::midpoint(200.0 * 100_000.0 / 1563.0, 200.0 * 50_000.0 / 884.0));
    near(&by_deadlines["objective_value"], by_deadlines["mean_jct_s"].as_f64().expect("a mean"));
    assert_eq!(
        (&by_deadlines["proven_optimal"], &by_deadlines["jobs"][0]["deadline_s"]),
        (&json!(true), &json!(13000.0))
    );
    // The first job is then late in any case, and the mean decides again.
    let by_deadlines = plan("1h", "--objective deadlines");
    near(&by_deadlines["deadlines_met"], 0.5);
    near(&by_deadlines["mean_jct_s"], mean["mean_jct_s"].as_f64().expect("a mean"));
    let late = by_deadlines["certificate"]["late_cost_s"].as_f64().expect("a cost");
    near(&by_deadlines["objective_value"], by_deadlines["mean_jct_s"].as_f64().expect("a mean") + late / 2.0);
    assert_eq!(by_deadlines["proven_optimal"], true);
    // A gap in the objective's unit has no meaning for users.
    let sandbox = Sandbox::new().file("jobs.yaml", jobs("1h"));
    let text = sandbox.run(&format!("{PLAN} --objective deadlines")).succeeds();
    assert!(text.contains("1 of 2 deadlines met") && text.contains("in 1 h 00 min, late"), "{text}");
    assert!(
        text.contains("the number of late jobs, then the mean completion time, is proven optimal"),
        "{text}"
    );
    // If a plan is not optimal, the two are stated separately.
    let text = sandbox.run(&format!("{PLAN} --objective deadlines --policy has")).succeeds();
    let said = "the number of late jobs is proven optimal, the mean completion time is at most ";
    assert!(text.contains(said) && text.contains("1 of 2 deadlines met"), "{text}");
}

#[test]
fn a_deadline_that_has_passed_is_said_and_a_date_alone_is_none() {
    let plan = |deadline: &str| {
        let jobs = crate::sandbox::JOBS.replacen(
            "command: train",
            &format!("deadline: {deadline}, command: train"),
            1,
        );
        Sandbox::new().file("jobs.yaml", jobs).run(PLAN)
    };
    let text = plan("2020-01-01T00:00:00Z").succeeds();
    assert!(text.contains("resnet18: its deadline has passed") && text.contains("passed, late"), "{text}");
    let text = plan("2020-01-01").fails(78);
    let expected = "must be a date and time or a duration, got \"2020-01-01\"; write it like 12h, 2030-01-31T18:00:00 (local)";
    assert!(text.contains(expected), "{text}");
}
