//! `hsched run` with slots: several runs on one device.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// Returns a job file whose sweep has a run with this command for each of these values.
fn sweep(runs: &str, more: &str, command: &str) -> String {
    format!(
        "jobs:\n  - name: s\n    samples_per_epoch: 10\n    epochs: 1\n    global_batch: 10\n    model_size: 0\n    retries: 0\n{more}    \
         throughput: {{a100: 100}}\n    sweep: {{k: [{runs}]}}\n    command: '{command}'\n"
    )
}

const DONE: &str = r#"echo "{\"epoch\": 1}" >>"$HSCHED_REPORT""#;

fn sandbox(jobs: String) -> Sandbox {
    Sandbox::new().file("jobs.yaml", jobs).variable("PATH", "/usr/local/bin:/usr/bin:/bin")
}

/// Returns how many runs a dry run would start.
fn started(told: &str) -> usize {
    told.lines().filter(|line| line.contains("to be started on 1 a100")).count()
}

#[test]
fn as_many_runs_as_slots_are_on_a_device_at_a_time() {
    // Each run waits for two others, so that with fewer slots no run would end.
    let meet = format!("touch at-$K; until [ $(ls at-* | wc -l) -ge 3 ]; do sleep 0.05; done; {DONE}");
    let sandbox = sandbox(sweep("1, 2, 3, 4", "", &meet));
    let told = sandbox.run("run jobs.yaml --devices a100:1x3 --simulated --dry-run").succeeds();
    assert_eq!(started(&told), 3, "{told}");
    let told = sandbox.run("run jobs.yaml --devices a100:1x3 --simulated").succeeds();
    assert!(told.contains("4 completed"), "{told}");
}

#[test]
fn runs_in_slots_share_the_hours_of_their_gpu() {
    let sampled =
        format!("until [ -s ${{HSCHED_PROGRESS%/*}}/*.jsonl ]; do sleep 0.05; done; sleep 0.3; {DONE}");
    for (devices, part) in [("a100:1x3", 3.0), ("a100:3", 1.0)] {
        let sandbox = sandbox(sweep("1, 2, 3", "    gpus: 1\n", &sampled));
        sandbox.run(&format!("run jobs.yaml --devices {devices} --simulated")).succeeds();
        let json = |command: &str| -> Value {
            serde_json::from_str(&sandbox.run(command).succeeds()).expect("JSON")
        };
        let status = json("status --format json");
        let runs = status["jobs"].as_array().expect("jobs").iter().map(|job| &job["runs"][0]);
        let seconds = |run: &Value| Some(run["ended"].as_f64()? - run["started"].as_f64()?);
        let held: f64 = runs.map(|run| seconds(run).expect("two times")).sum();
        let hours = json("history --format json")["total"]["gpu_hours"].as_f64().expect("a number");
        assert!((hours * 3600.0 * part / held - 1.0).abs() < 1e-6, "{devices}: {hours} h of {held} s");
    }
}

#[test]
fn a_job_file_says_how_many_slots_there_are() {
    let sandbox = sandbox(sweep("1, 2, 3", "    slots: 2\n", DONE));
    let told = sandbox.run("run jobs.yaml --devices a100:1 --simulated --dry-run").succeeds();
    assert_eq!(started(&told), 2, "{told}");
    let refused = sandbox.run("run jobs.yaml --devices a100:1x0").fails(2);
    assert!(refused.contains("a100:1x0"), "{refused}");
    let sandbox = self::sandbox(sweep("1", "    gpus: 2\n", DONE));
    let refused = sandbox.run("run jobs.yaml --devices a100:2x2 --simulated").fails(78);
    assert!(refused.contains("s-k1 needs 2 GPUs, and a slot is a fraction of one"), "{refused}");
}

#[test]
fn an_unfinished_job_of_an_earlier_file_lowers_the_number_of_slots() {
    let sandbox = sandbox(sweep("1, 2, 3", "    slots: 3\n", DONE))
        .file("earlier.yaml", sweep("4", "    gpus: 2\n", DONE));
    // The job needs two GPUs, and only one is here.
    sandbox.run("run earlier.yaml --devices a100:1 --simulated").exits(3);
    let told = sandbox.run("run jobs.yaml --devices a100:1 --simulated --dry-run").exits(0).stdout;
    assert_eq!(started(&told), 1, "{told}");
}

#[test]
fn a_job_of_the_state_that_needs_several_gpus_waits_while_gpus_have_slots() {
    let sandbox = sandbox(sweep("1", "", DONE)).file("earlier.yaml", sweep("2", "    gpus: 2\n", DONE));
    sandbox.run("run earlier.yaml --devices a100:1 --simulated").exits(3);
    let ran = sandbox.run("run jobs.yaml --devices a100:1x2 --simulated").exits(3);
    assert!(ran.stdout.contains("s-k1: completed"), "{}", ran.stdout);
    let why = "s-k2: waiting: it needs 2 GPUs, and a slot is a fraction of one";
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
}

#[test]
fn a_run_that_uses_more_memory_than_its_slot_has_is_named() {
    // The second run reports 9 GiB of the 16 GiB that the two runs share, and the first one reports 0.
    let report = r#"echo "{\"epoch\": 1, \"max_memory\": $((K * 9663676416))}" >>"$HSCHED_REPORT""#;
    let sandbox = sandbox(
        sweep("0, 1", "    throughput: {v100-16gb: 100}\n", report)
            .replace("    throughput: {a100: 100}\n", ""),
    );
    let told = sandbox.run("run jobs.yaml --devices v100-16gb:1x2 --simulated").succeeds();
    let excess = "its GPU memory reached 9.0 GiB, more than the 8.0 GiB of its slot";
    let logged =
        told.lines().filter(|line| line.contains("s-k1: reports: ") && line.contains(excess)).count();
    assert_eq!(logged, 1, "{told}");
    assert!(!told.contains("s-k0: reports"), "{told}");
    let status: Value =
        serde_json::from_str(&sandbox.run("status s-k1 --format json").succeeds()).expect("JSON");
    assert_eq!(status["jobs"][0]["odd_reports"], excess, "{status}");
    assert!(sandbox.run("status s-k1").succeeds().contains(excess));
}

#[test]
fn a_run_that_needs_more_memory_than_a_slot_has_gets_a_gpu_of_its_own() {
    // The runs fail if they meet.
    let alone = format!("mkdir gpu && sleep 0.2 && rmdir gpu && {DONE}");
    let big = "    max_memory: 9GiB\n    throughput: {v100-16gb: 100}\n";
    let sandbox = sandbox(sweep("1, 2, 3", big, &alone).replace("    throughput: {a100: 100}\n", ""));
    let told = sandbox.run("run jobs.yaml --devices v100-16gb:1x2 --simulated").succeeds();
    let why = "needs more memory than the 8.0 GiB of a slot: it gets a GPU of its own";
    assert_eq!(told.matches(why).count(), 3, "{told}");
    assert!(told.contains("3 completed"), "{told}");
}

#[test]
fn a_run_that_lacks_memory_beside_another_runs_again_alone() {
    // The first run ends after the second has failed. The second fails once; with `retries: 0` it still runs
    // again, because it lacked memory beside another run. It then has the GPU exclusively.
    let all = format!(
        "if [ $K = 1 ]; then until [ -e failed ]; do sleep 0.05; done; elif [ $K = 2 ] && [ ! -e failed ]; then \
         echo torch.OutOfMemoryError: CUDA out of memory; touch failed; exit 1; \
         else mkdir gpu && sleep 0.3 && rmdir gpu; fi && {DONE}"
    );
    let sandbox = sandbox(sweep("1, 2, 3", "", &all));
    let told = sandbox.run("run jobs.yaml --devices a100:1x2 --simulated").succeeds();
    // The run starts when the GPU is free, without the delay of a retry.
    assert!(!told.contains("s-k2: cannot be started"), "{told}");
    assert!(
        told.contains("ran out of memory while sharing its GPU; restarting on a GPU of its own"),
        "{told}"
    );
    assert!(told.contains("3 completed"), "{told}");
}
