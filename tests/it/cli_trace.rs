//! `hsched trace` and `hsched generate trace`: the conversion of published traces, and random traces.

use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::Sandbox;

const CLUSTER: &str = "
network_gbps: 10
intra_node_gbps: 300
nodes: [{name: 'n[1-2]', gpus: {v100: 4}}, {name: n3, gpus: {t4: 4}}]
";

const SACCT: &str = "\
JobID|JobName|State|Submit|Start|End|Elapsed|AllocTRES
7|train me|COMPLETED|2026-10-01T10:00:00|2026-10-01T10:05:00|2026-10-01T11:05:00|01:00:00|billing=8,cpu=8,gres/gpu:v100=2,gres/gpu=2,mem=64G,node=1
7.batch|batch|COMPLETED|2026-10-01T10:05:00|2026-10-01T10:05:00|2026-10-01T11:05:00|01:00:00|cpu=8,gres/gpu:v100=2,gres/gpu=2
8_1|array|TIMEOUT|2026-10-01T10:00:30|2026-10-01T10:05:00|2026-10-01T10:06:40|00:01:40|cpu=8,gres/gpu=1
9|cpu|COMPLETED|2026-10-01T10:01:00|2026-10-01T10:05:00|2026-10-01T10:05:10|00:00:10|cpu=8
11|odd|COMPLETED|yesterday|Unknown|Unknown|00:10:00|gres/gpu:v100=1
";

/// Simulates the trace in a file, and returns the completion times of its jobs.
fn times(sandbox: &Sandbox, trace: &str, policy: &str) -> Vec<f64> {
    let options = format!("--cluster lab.yaml --policy {policy} --restart-cost 0s --format json");
    let json = sandbox.run(&format!("simulate --trace {trace} {options}")).json();
    let jobs = json["policies"][0]["jobs"].as_array().expect("jobs").clone();
    jobs.iter().map(|job| job["jct_s"].as_f64().unwrap_or_else(|| panic!("ended: {job}"))).collect()
}

fn are(found: &[f64], expected: &[f64]) {
    let close = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-6 * expected;
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(close), "{found:?} {expected:?}");
}

#[test]
fn what_ran_on_slurm_runs_as_long_again() {
    let sandbox = Sandbox::new().file("sacct.txt", SACCT).file("lab.yaml", CLUSTER);
    let run = sandbox.run("trace from-sacct sacct.txt --type t4 -o month.yaml").exits(0);
    assert_snapshot!(run.stderr, @r#"
    sacct.txt: line 6: Submit is not a date: "yesterday"
    left out: 1 (no GPUs)
    left out: 1 (steps)
    2 jobs on t4, v100
    "#);
    assert_snapshot!(sandbox.text(&sandbox.work("month.yaml")), @r#"
    jobs:
      - name: train_me-7
        samples_per_epoch: 1200
        epochs: 6
        global_batch: 2
        model_size: 0B
        throughput: {v100: 1}
        min_gpus: 2
        max_gpus: 2
        gpus: 2
      - name: array-8_1
        samples_per_epoch: 600
        epochs: 1
        global_batch: 1
        model_size: 0B
        throughput: {t4: 6}
        max_gpus: 1
        gpus: 1
        arrival: "30s"
    "#);
    are(&times(&sandbox, "month.yaml", "fifo"), &[3600.0, 100.0]);
    let piped = sandbox.run("trace from-sacct sacct.txt").exits(0);
    assert!(piped.stdout.starts_with("jobs:\n"), "{}", piped.stdout);
    assert!(piped.stderr.contains("GPUs without a type; set it with --type"), "{}", piped.stderr);
}

#[test]
fn other_types_are_only_used_when_estimates_are_wanted() {
    let t4s = "network_gbps: 10\nintra_node_gbps: 300\nnodes: [{name: n3, gpus: {t4: 4}}]\n";
    let sandbox = Sandbox::new().file("sacct.txt", SACCT).file("lab.yaml", t4s);
    sandbox.run("trace from-sacct sacct.txt -o own.yaml").exits(0);
    sandbox.run("simulate --trace own.yaml --cluster lab.yaml --policy fifo").exits(3);
    let said = sandbox.run("trace from-sacct sacct.txt --estimate -o any.yaml").exits(0).stderr;
    assert!(said.contains("estimated from the table of GPUs"), "{said}");
    let slower = times(&sandbox, "any.yaml", "fifo")[0];
    assert!((3600.0 * 1.2..3600.0 * 5.0).contains(&slower), "{slower}");
}

#[test]
fn what_is_no_table_is_refused_whole() {
    let sandbox = Sandbox::new()
        .file("a.txt", "7|a|COMPLETED\n")
        .file("b.csv", "submit_s,duration_s,num_gpus\n1,x,1\n");
    assert_snapshot!(sandbox.run("trace from-sacct a.txt -o made.yaml").fails(78), @"error: a.txt: there is no column JobID or JobIDRaw; the columns are 7, a, COMPLETED");
    assert_snapshot!(sandbox.run("trace from-philly b.csv --type v100 -o made.yaml").fails(78), @r#"
    b.csv: line 2: duration_s must be a number, at least 0, got "x"
    error: b.csv: no job can be converted
    "#);
    assert!(!sandbox.work("made.yaml").exists());
}

const SPEEDS: &str = "table,job_type,scale_factor,v100,t4,v100_unconsolidated\nsimulation,ResNet-18 (batch size 16),1,4,2,4\nsimulation,ResNet-18 (batch size 16),2,7,0,4\nphysical,ResNet-18 (batch size 16),1,9,9,9\n";

#[test]
fn gavels_jobs_take_their_measured_times() {
    let line = |kind: &str, steps: &str, gpus: u32, at: u32| {
        format!("{kind}\tpython main.py\tcv\t--num_steps\t0\t{steps}\t{gpus}\t1.0\t-1.0\t{at}\n")
    };
    let kind = "ResNet-18 (batch size 16)";
    let trace = line(kind, "1000", 1, 0)
        + &line(kind, "7000", 2, 50)
        + &line("GPT", "5", 1, 60)
        + &line(kind, "many", 1, 70)
        + "short\tline\n";
    let json = r#"{"v100": {"('ResNet-18 (batch size 16)', 1)": {"null": 4.0, "('A', 1)": [1.0, 2.0]}, "('ResNet-18 (batch size 16)', 2)": {"null": 7.0}}, "t4": {"('ResNet-18 (batch size 16)', 1)": {"null": 2.0}}}"#;
    let table = "vc,job_type,scale_factor,total_steps,arrival_s\na,ResNet-18 (batch size 16),1,1000,0\na,ResNet-18 (batch size 16),2,7000,50\n";
    let sandbox = Sandbox::new()
        .file("g.trace", &trace)
        .file("g.csv", table)
        .file("s.csv", SPEEDS)
        .file("s.json", json)
        .file("lab.yaml", CLUSTER);
    let said = sandbox.run("trace from-gavel g.trace --throughputs s.csv -o lines.yaml").exits(0).stderr;
    assert_snapshot!(said, @r#"
    g.trace: line 3: the speeds have no "GPT" with scale factor 1
    g.trace: line 4: the number of steps must be a number, got "many"
    g.trace: line 5: has 2 fields between tabs; lines of Gavel have ten
    2 jobs on t4, v100
    "#);
    are(&times(&sandbox, "lines.yaml", "fifo-het"), &[250.0, 1000.0]);
    let lines = sandbox.text(&sandbox.work("lines.yaml"));
    for (file, speeds) in [("g.trace", "s.json"), ("g.csv", "s.csv")] {
        assert_eq!(
            sandbox.run(&format!("trace from-gavel {file} --throughputs {speeds}")).exits(0).stdout,
            lines
        );
    }
}

#[test]
fn sias_jobs_have_the_line_through_their_profile() {
    let profiles = "model,gpu,local_bsz,placement,step_time_s,sync_time_s\ncifar10,aws,10,1,0.3,0\ncifar10,aws,20,1,0.5,0\ncifar10,aws,20,2,9,0\n";
    let applications = "application,samples_per_epoch,epochs,model_size_mb\ncifar10,1000,10,0\n";
    let workload = "trace,workload,name,submit_s,application,num_gpus,batch_size\nnewtrace,1,cifar10-0,5,cifar10,1,40\nnewtrace,2,cifar10-1,6,cifar10,1,40\nnewtrace,1,gpt-2,7,gpt,1,40\n";
    let sandbox = Sandbox::new()
        .file("p.csv", profiles)
        .file("a.csv", applications)
        .file("w.csv", workload)
        .file("lab.yaml", CLUSTER);
    let said = sandbox
        .run("trace from-sia w.csv --profiles p.csv --applications a.csv --workload newtrace/1 -o w.yaml")
        .exits(0)
        .stderr;
    assert_snapshot!(said, @r#"
    w.csv: line 4: "gpt" has no line in the file of applications
    left out: 1 (in another workload)
    1 job on t4
    "#);
    // A step takes 0.1 s plus 0.02 s per sample, so a step of 40 samples takes 0.9 s.
    are(&times(&sandbox, "w.yaml", "fifo"), &[0.9 * 25.0 * 10.0]);
}

#[test]
fn alibabas_tasks_use_the_types_they_name() {
    let text = "idx,submit_s,start_s,end_s,num_gpu,gpu_milli,gpu_spec\n0,100,100,200,1,500,V100|T4\n1,110,120,420,2,1000,\n2,1,1,9,0,0,\n3,5,,,1,1000,T4\n4,9,30,20,1,1000,T4\n";
    let sandbox = Sandbox::new().file("pods.csv", text).file("lab.yaml", CLUSTER);
    let said = sandbox.run("trace from-alibaba pods.csv -o pods.yaml").exits(0).stderr;
    assert_snapshot!(said, @r"
    pods.csv: line 6: ends at 20, before its start at 30
    left out: 1 (never started or never ended)
    left out: 1 (no GPUs)
    2 jobs on t4, v100
    ");
    are(&times(&sandbox, "pods.yaml", "fifo"), &[100.0, 300.0]);
}

#[test]
fn made_up_traces_have_the_load_that_is_asked_for() {
    let sandbox = Sandbox::new()
        .file("lab.yaml", CLUSTER)
        .file("s.csv", SPEEDS)
        .file("week.csv", "submit_s,duration_s,num_gpus,vc\n5,100,1,a\n25,300,2,b\n1005,50,3,a\n");
    for options in [
        "--rules paper --mouldable",
        "--rules heavy-tails --types v100,t4 --sync epoch",
        "--rules gavel --throughputs s.csv",
        "--rules gavel --throughputs s.csv --mouldable --single-gpu",
    ] {
        let make = format!("generate trace {options} --jobs 60 --load 0.8 --cluster lab.yaml --seed 3");
        let text = sandbox.run(&make).succeeds();
        assert_eq!(text, sandbox.run(&make).succeeds());
        assert_ne!(text, sandbox.run(&make.replace("--seed 3", "--seed 4")).succeeds());
        sandbox.run(&format!("{make} -o made.yaml")).exits(0);
        let json = sandbox.run("simulate --trace made.yaml --cluster lab.yaml --policy srsf --format json");
        let json: Value = json.json();
        let load = json["load"].as_f64().expect("a load");
        assert!((load - 0.8).abs() < 0.001, "{options}: {load}");
    }
    sandbox.run("generate trace --rules gavel --throughputs s.csv --recorded week.csv -o week.yaml").exits(0);
    let times = times(&sandbox, "week.yaml", "fifo-het");
    assert!(
        times.iter().zip([100.0, 300.0, 50.0]).all(|(time, as_was)| (time / as_was - 1.0).abs() < 0.5),
        "{times:?}"
    );
    sandbox.run("generate trace --rules gavel").fails(2);
    let gavel = "generate trace --rules gavel --throughputs s.csv --single-gpu --jobs 5";
    let speeds = |options: &str| {
        let made = sandbox.run(&format!("{gavel} {options}")).exits(0).stdout;
        made.lines().filter(|line| line.contains("v100:")).map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(speeds("--no-faster-than v100"), speeds(""));
    assert_ne!(speeds("--no-faster-than t4"), speeds(""));
    sandbox.run(&format!("{gavel} --no-faster-than 'v 100'")).fails(2);
}

/// Returns the path of a file of published data; `None`, with a message, if it is not beside the checkout.
fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is not there", path.display());
    None
}

#[test]
fn published_traces_are_read_whole() {
    let names = [
        "gavel/trace_physical_cluster.csv",
        "gavel/throughputs_isolated.csv",
        "gavel/trace_msr_seed0.csv",
        "traces/philly_week_2017-10-16.csv",
        "traces/alibaba2023_openb_pods_gpuspec33.csv",
        "sia/workloads.csv",
        "sia/single_gpu_seed_profiles.csv",
    ];
    let Some(paths) = names.iter().map(|name| shared(name)).collect::<Option<Vec<_>>>() else { return };
    let path = |number: usize| paths[number].display().to_string();
    let applications = "application,samples_per_epoch,epochs,model_size_mb\nbert,88641,2,438\ncifar10,50000,100,45\ndeepspeech2,17000,80,212\nimagenet,1281167,90,102\nyolov3,16551,50,246\n";
    let sandbox = Sandbox::new().file("apps.csv", applications);
    let said = |command: String| sandbox.run(&format!("{command} -o made.yaml")).exits(0).stderr;
    let gavel = |number: usize| said(format!("trace from-gavel {} --throughputs {}", path(number), path(1)));
    assert!(gavel(0).lines().last().is_some_and(|line| line.ends_with("jobs on k80, p100, v100")));
    assert_snapshot!(gavel(2).lines().last().unwrap_or_default(), @"13716 jobs on k80, p100, v100");
    let philly = said(format!("trace from-philly {} --type v100", path(3)));
    assert_snapshot!(philly, @"14185 jobs on v100");
    let alibaba = said(format!("trace from-alibaba {}", path(4)));
    assert!(!alibaba.contains("line "), "{alibaba}");
    let sia = said(format!(
        "trace from-sia {} --profiles {} --applications apps.csv --workload newtrace/1",
        path(5),
        path(6)
    ));
    assert_snapshot!(sia, @r"
    left out: 11550 (in another workload)
    960 jobs on a100, rtx2080ti, rtx6000, t4, v100
    ");
}
