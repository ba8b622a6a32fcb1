//! Completions call the program, which offers the names that it knows and prints nothing else.

use std::fs;

use crate::sandbox::{JOBS, Sandbox};

/// Returns bash's completions of the last word, without options.
fn offered(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let arguments = [&["--", "hsched"], words].concat();
    let mut command = sandbox.command(&arguments);
    command
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .env("_CLAP_IFS", "\n");
    let ran = sandbox.ran(&command.output().expect("runs")).succeeds();
    ran.lines().filter(|word| !word.starts_with("--")).map(str::to_owned).collect()
}

/// Returns a sandbox in which jobs and sweeps wait.
fn sandbox() -> Sandbox {
    let sweep =
        JOBS.replace("model_size: 0,", "model_size: 0, sweep: {lr: [1, 2]},").replace("vgg19", "bert");
    let sandbox = Sandbox::with_slurm().file("sweep.yaml", sweep);
    sandbox.run("add jobs.yaml").succeeds();
    sandbox.run("add sweep.yaml").succeeds();
    sandbox
}

#[test]
fn names_of_jobs_and_sweeps_are_offered() {
    let sandbox = sandbox();
    for command in ["status", "logs", "cancel", "why"] {
        let names = offered(&sandbox, &[command, ""]);
        for name in ["resnet18", "vgg19", "bert", "bert-lr1", "bert-lr2"] {
            assert!(names.iter().any(|offer| offer == name), "{command}: {names:?}");
        }
    }
    assert_eq!(offered(&sandbox, &["results", "vgg"]), ["vgg19"]);
    assert_eq!(offered(&sandbox, &["tell", "be"]), ["bert"], "not its runs");
    assert_eq!(offered(&sandbox, &["status", "nobody"]), [""; 0]);
}

#[test]
fn cancel_is_offered_open_jobs_and_options_the_tags_of_jobs() {
    let tagged = JOBS.replacen("model_size: 0,", "model_size: 0, tags: [baseline],", 1);
    let sandbox = Sandbox::with_slurm().file("jobs.yaml", tagged);
    sandbox.run("add jobs.yaml").succeeds();
    sandbox.run("cancel vgg19").succeeds();
    assert_eq!(offered(&sandbox, &["cancel", ""]), ["resnet18"]);
    assert_eq!(offered(&sandbox, &["status", "vgg"]), ["vgg19"]);
    assert_eq!(offered(&sandbox, &["results", "--tag", ""]), ["baseline"]);
}

#[test]
fn help_is_offered_commands_and_pages() {
    let sandbox = Sandbox::new();
    assert_eq!(offered(&sandbox, &["help", "sim"]), ["simulate"]);
    assert_eq!(offered(&sandbox, &["help", "exit"]), ["exit-codes"]);
    assert_eq!(offered(&sandbox, &["help", "err"]), ["error", "errors"]);
}

#[test]
fn policies_types_settings_and_accounts_are_offered() {
    let sandbox = sandbox().program("sacctmgr", "printf 'c|def-me|\\nc|rrg-lab|\\n'");
    assert_eq!(offered(&sandbox, &["plan", "--policy", "opti"]), ["optimal", "optimus", "optimus-lb"]);
    assert_eq!(offered(&sandbox, &["simulate", "--policy", "fifo,hada"]), ["fifo,hadar", "fifo,hadare"]);
    assert_eq!(offered(&sandbox, &["status", "--set", "state"]), ["state_dir="]);
    assert_eq!(offered(&sandbox, &["add", "--account", ""]), ["def-me", "rrg-lab"]);
    assert!(offered(&sandbox, &["when", "--may", "a100"]).iter().any(|name| name == "a100"));
    sandbox.run("cache set resnet18 our-own-type 10").succeeds();
    assert_eq!(offered(&sandbox, &["cache", "forget", "resnet18", "our-"]), ["our-own-type"]);
    assert_eq!(offered(&sandbox, &["cache", "forget", "res"]), ["resnet18"]);
    assert!(offered(&sandbox, &[""]).iter().all(|name| name != "write-docs" && name != "guard"));
}

/// If nothing is known or a setting is wrong, a shell gets no names and no messages.
#[test]
fn what_cannot_be_read_offers_nothing() {
    let sandbox = Sandbox::new().variable("HSCHED_TIME_MARGIN", "nonsense");
    assert_eq!(offered(&sandbox, &["status", ""]), [""; 0]);
    assert!(!sandbox.state("").exists(), "a completion makes no state directory");
    sandbox.make_state();
    fs::write(sandbox.state("state.json"), "{").expect("a file");
    assert_eq!(offered(&sandbox, &["logs", ""]), [""; 0]);
}
