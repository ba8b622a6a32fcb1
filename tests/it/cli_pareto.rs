//! `hsched plan --pareto`: plans that trade off mean completion time, fairness and cost.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Two GPU types with reference GPU units.
const CLUSTER: &str = "nodes:\n  - {name: a, gpus: {h100: 2}}\n  - {name: b, gpus: {a100-80gb: 2}}\n";

const JOBS: &str = "jobs:
  - {name: resnet18, samples_per_epoch: 100000, epochs: 200, global_batch: 512, model_size: 0B, throughput: {h100: 644, a100-80gb: 275}, command: [a]}
  - {name: vgg19, samples_per_epoch: 50000, epochs: 200, global_batch: 512, model_size: 0B, throughput: {h100: 1754, a100-80gb: 884}, command: [a]}
  - {name: behind, samples_per_epoch: 50000, epochs: 2, global_batch: 512, model_size: 0B, throughput: {h100: 1754}, after: vgg19, command: [a]}
";

const PARETO: &str = "plan jobs.yaml --cluster cluster.yaml --pareto";

fn sandbox() -> Sandbox {
    Sandbox::new().file("jobs.yaml", JOBS).file("cluster.yaml", CLUSTER)
}

#[test]
fn each_plan_stands_in_the_json_as_submit_reads_it() {
    let sandbox = sandbox();
    let json = format!("{PARETO} --format json");
    let front = sandbox.run(&json).exits(0).json();
    assert_eq!((&front["schema"], &front["cost_unit"]), (&json!("hsched.pareto/1"), &json!("RGU-hours")));
    let plans = front["plans"].as_array().expect("plans");
    let figure = |plan: &Value, key: &str| plan[key].as_f64().expect("a number");
    assert!(plans.len() > 2, "{front}");
    for plan in plans {
        let (mean, bound) = (figure(plan, "mean_s"), figure(plan, "bound_s"));
        assert!(bound <= mean && (figure(plan, "gap") - (mean / bound - 1.0)).abs() < 1e-12);
        assert_eq!(
            (&plan["plan"]["mean_jct_s"], &plan["plan"]["fairness"]),
            (&plan["mean_s"], &plan["fairness"])
        );
        let reason = &plan["plan"]["jobs"][2]["reason"];
        assert!(reason.as_str().is_some_and(|reason| reason.contains("vgg19")), "{reason}");
        let other = |other: &&Value| {
            figure(other, "mean_s") <= mean
                && figure(other, "fairness") >= figure(plan, "fairness")
                && figure(other, "cost") <= figure(plan, "cost")
        };
        assert_eq!(plans.iter().filter(other).count(), 1, "no plan is beaten");
        let text = plan["plan"].to_string();
        let scripts = sandbox.run_with_input("submit - --dry-run --run-id r1", &text).exits(0).stdout;
        assert_eq!(scripts.matches("#!/bin/bash\n").count(), 2);
    }
    assert_eq!(sandbox.run(&json).exits(0).json(), front, "the same plans");
}

#[test]
fn the_table_has_a_picture_and_fits() {
    let text = sandbox().run(PARETO).succeeds();
    let table =
        text.lines().skip_while(|line| !line.contains("RGU-HOURS")).take_while(|line| !line.is_empty());
    let widths: Vec<usize> = table.map(|line| line.chars().count()).collect();
    assert!(text.starts_with(&format!("{} plans for 2 of 3 jobs", widths.len() - 1)), "{text}");
    assert!(widths.iter().all(|width| *width <= 80), "{text}");
    assert!(text.contains("fairness\n") && text.contains("\n     mean  "), "{text}");
}

#[test]
fn where_a_type_has_no_units_there_is_no_cost() {
    let sandbox = Sandbox::new();
    let front = sandbox.run(&format!("{PARETO} --format json")).exits(0).json();
    assert_eq!((&front["cost_unit"], &front["plans"][0]["cost"]), (&Value::Null, &Value::Null));
    assert!(!sandbox.run(PARETO).succeeds().contains("HOURS"));
}

#[test]
fn other_policies_and_outputs_are_refused() {
    let sandbox = Sandbox::new();
    for more in ["--policy jps", "--objective makespan", "--compare all", "--explain resnet18", "-o p.json"] {
        assert!(sandbox.run(&format!("{PARETO} {more}")).fails(2).contains("cannot be used with"), "{more}");
    }
    let none = sandbox.file("none.yaml", JOBS).run("plan none.yaml --cluster cluster.yaml --pareto");
    assert_snapshot!(none.exits(3).stdout, @"no job is placed; hsched plan says why");
}
