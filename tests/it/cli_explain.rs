//! `hsched plan --explain`: prices, a summary of all jobs, one job in full, and errors on the command line.

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::Sandbox;

const PLAN: &str = "plan jobs.yaml --cluster cluster.yaml --policy exhaustive";

#[test]
fn all_jobs_in_short() {
    let sandbox = Sandbox::new();
    let text = sandbox.run(&format!("{PLAN} --explain")).succeeds();
    assert_snapshot!(text, @r"
    exhaustive: 2 of 2 jobs on 4 of 4 GPUs

    GPU   AVAILABLE  UNUSED       PRICE
    t4            2       0  1 h 07 min
    v100          2       0  2 h 22 min

    A price is what one GPU is worth to all jobs together, in seconds of the sum of
    all completion times. These prices prove the best lower bound. A type with price
    0 s is not scarce.

    JOB       GPUS       DONE IN        PAYS  ONE TYPE      DONE IN
    resnet18  2 v100  4 h 18 min  4 h 45 min  2 v100     4 h 18 min
    vgg19     2 t4    1 h 34 min  2 h 14 min  2 v100    47 min 31 s

    resnet18: one more t4 would not be worth its price, and none is free
    vgg19: one more v100 would not be worth its price, and none is free
    ");
    // The file may be in the position of a job's name.
    let other = "plan --explain jobs.yaml --cluster cluster.yaml --policy exhaustive";
    assert_eq!(sandbox.run(other).succeeds(), text);
}

#[test]
fn a_job_in_full() {
    assert_snapshot!(Sandbox::new().run(&format!("{PLAN} --explain resnet18")).succeeds(), @r"
    resnet18: 2 v100, done in 4 h 18 min; at these prices it pays 4 h 45 min

    GPU   HAS  UNUSED       PRICE        PAYS         ONE FEWER            ONE MORE
    t4      0       0  1 h 07 min         0 s                 -  45 min 32 s sooner
    v100    2       0  2 h 22 min  4 h 45 min  4 h 18 min later             has all

    - one more t4 would not be worth its price, and none is free

    ALTERNATIVE            AVAILABLE      DONE IN        PAYS        TOTAL
    as planned                         4 h 18 min  4 h 45 min   9 h 03 min
    one type: 2 t4         no         10 h 06 min  2 h 14 min  12 h 20 min
    one type: 2 v100       yes         4 h 18 min  4 h 45 min   9 h 03 min
    one node: 2 v100 of b  yes         4 h 18 min  4 h 45 min   9 h 03 min
    ");
}

#[test]
fn a_job_without_gpus() {
    let jobs =
        crate::sandbox::JOBS.replacen("t4: 275}, command: train", "p100: 9}, command: train, min_gpus: 5", 1);
    let sandbox = Sandbox::new().file("jobs.yaml", jobs);
    assert_snapshot!(sandbox.run(&format!("{PLAN} --explain resnet18")).exits(3).stdout, @r"
    resnet18 rejected: needs 5 v100; a job can have at most 2 on this cluster

    GPU   AVAILABLE  UNUSED  PRICE  WHY NOT
    t4            2       0    0 s  no throughput known
    v100          2       0    0 s  below min_gpus 5
    ");
}

#[test]
fn json_has_it_all() {
    let sandbox = Sandbox::new();
    let all = sandbox.run(&format!("{PLAN} --explain --format json")).exits(0).json();
    assert_eq!((&all["schema"], &all["policy"]), (&"hsched.explain/1".into(), &"exhaustive".into()));
    let job = &all["jobs"][0];
    let only = sandbox.run(&format!("{PLAN} --explain resnet18 --format json")).exits(0).json();
    assert_eq!((&only["jobs"][0], only["jobs"].as_array().map(Vec::len)), (job, Some(1)));
    let t4 = &job["types"][0];
    assert_eq!((&t4["type"], &t4["has"], &t4["one_fewer"]), (&"t4".into(), &0.into(), &Value::Null));
    assert_eq!(t4["one_more"]["free"], false);
    assert!(t4["one_more"]["change_s"].as_f64().is_some_and(|change| change < -2000.0));
    assert_eq!(job["types"][1]["one_more"]["reason"], "it already has all that are available");
    assert_eq!(job["limits"][0]["limit"], "taken");
}

#[test]
fn wrong_command_lines() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run(&format!("{PLAN} --explain resnet81")).fails(2), @r"
    error: --explain resnet81: no such job in the job file
    hint: did you mean resnet18?
    ");
    assert_snapshot!(sandbox.run(&format!("{PLAN} --explain x")).fails(2), @r"
    error: --explain x: no such job in the job file
    hint: jobs in the file: resnet18, vgg19
    ");
    assert_snapshot!(sandbox.run("plan --explain").fails(2), @r"
    error: no job file given
    hint: hsched plan JOBS --explain [JOB]
    ");
    sandbox.run("plan jobs.yaml --explain --compare all").fails(2);
}
