//! Jobs that are added or submitted again, and the messages about their folders.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;

use crate::cli_jobs::{SUBMIT, line, submitted};
use crate::sandbox::{JOBS, Sandbox, THREE};

#[test]
fn a_job_that_failed_goes_on_after_its_last_epoch() {
    let sandbox = submitted();
    let folder = sandbox.state("runs/r1/report/vgg19");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("rank-0.jsonl"), "{\"epoch\": 1}\n{\"epoch\": 2}\n").expect("a file");
    let sandbox =
        sandbox.printing("squeue", &[&line(1, "resnet18", "CANCELLED"), &line(2, "vgg19", "CANCELLED")]);
    assert_snapshot!(sandbox.run("add jobs.yaml --dry-run --restart").succeeds(), @r"
    resnet18: would be added again (previous run: cancelled)
    vgg19: would be added again (previous run: cancelled); starts over: --restart
    no job was added (--dry-run)
    ");
    let again = SUBMIT.replace("r1", "r2");
    assert_snapshot!(sandbox.run(&again).succeeds(), @r"
    resnet18: submitted as job 3
    vgg19: submitted as job 4; resumes after epoch 2 of 200
    ");
    let script = sandbox.text(&sandbox.state("runs/r2/vgg19.sbatch"));
    assert!(script.contains("hs_epochs_done=2"), "{script}");
    let job = sandbox.run("status vgg19 --format json").exits(0).json()["jobs"][0].clone();
    assert_eq!((&job["epochs_done"], job["runs"].as_array().map(Vec::len)), (&json!(2), Some(2)));
    let ended = |id, job| line(id, job, "CANCELLED").replace("\"r1\"", "\"r2\"");
    let sandbox = sandbox.printing("squeue", &[&ended(3, "resnet18"), &ended(4, "vgg19")]);
    assert_snapshot!(sandbox.run("add jobs.yaml").succeeds(), @r"
    resnet18: added again (previous run: cancelled)
    vgg19: added again (previous run: cancelled); resumes after epoch 2 of 200
    hsched watch places these jobs
    ");
    let value =
        sandbox.run(&format!("{} --restart --format json", again.replace("r2", "r3"))).exits(0).json();
    assert_eq!(value["jobs"][1]["epochs_done"], 0);
    let script = sandbox.text(&sandbox.state("runs/r3/vgg19.sbatch"));
    assert!(script.contains("hs_epochs_done=0"), "{script}");
}

#[test]
fn folders_that_are_shared_or_not_there_are_worth_a_word() {
    let shared = JOBS.replace("command: train", "checkpoint: {dir: saved}, command: train");
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", THREE).file("shared.yaml", &shared);
    let said = "note: resnet18 and vgg19 save checkpoints in the same directory ROOT/home/desk/saved and would overwrite each other; give each its own checkpoint.dir\n";
    assert_eq!(sandbox.run("add shared.yaml --dry-run").exits(0).stderr, said);
    let dry = sandbox.run("submit shared.yaml --cluster cluster.yaml --dry-run").exits(0);
    assert!(dry.stderr.contains(said), "{}", dry.stderr);
    assert_eq!(sandbox.run("add shared.yaml").exits(0).stderr, said);
    // The note also appears for jobs that are already known.
    let third =
        shared.replace("resnet18", "third").replace("vgg19", "fourth").replacen("saved", "elsewhere", 1);
    let sandbox = sandbox.file("third.yaml", third);
    let said = sandbox.run("add third.yaml").exits(0).stderr;
    assert!(
        said.contains("fourth and resnet18 and vgg19 save checkpoints in the same directory")
            && !said.contains("third"),
        "{said}"
    );
    let gone = JOBS.replace("command: train", "workdir: gone, command: train");
    let said = Sandbox::with_slurm().file("jobs.yaml", gone).run("add jobs.yaml").exits(0).stderr;
    assert!(
        said.starts_with(
            "note: resnet18 and vgg19: the workdir ROOT/home/desk/gone does not exist on this machine\n"
        ),
        "{said}"
    );
}
