//! Damaged files of the state directory, from the user's view: repairs are reported once, other damage is refused.

use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;

use crate::cli_jobs::{SUBMIT, line, submitted};
use crate::sandbox::{Sandbox, THREE};

/// Returns the numbers of requests to Slurm to submit and to end jobs.
fn requests(sandbox: &Sandbox) -> (usize, usize) {
    let submits = |call: &&Vec<String>| call.iter().any(|argument| argument == "--parsable");
    (sandbox.calls("sbatch").iter().filter(submits).count(), sandbox.calls("scancel").len())
}

/// Returns the doctor's status, finding and advice for each check of the files, a line each.
fn doctor(sandbox: &Sandbox) -> String {
    let value = sandbox.run("doctor --format json").exits(69).json();
    let checks = value["checks"].as_array().expect("checks").iter().filter(|check| check["check"] == "files");
    let text = |check: &serde_json::Value| {
        let word = |key: &str| check[key].as_str().unwrap_or("-").to_owned();
        format!("{}: {} → {}\n", word("status"), word("found"), word("advice"))
            .replace(&root(sandbox), "ROOT")
    };
    checks.map(text).collect()
}

fn root(sandbox: &Sandbox) -> String {
    sandbox.path("").display().to_string().trim_end_matches('/').to_owned()
}

/// Returns a text with its times replaced by `TIME`.
fn undated(text: &str) -> String {
    let (dated, last) = text.rsplit_once(" UTC").expect("a time");
    let dated = dated.split(" UTC").map(|part| {
        let length = part.len() - "2026-11-23 15:00:00".len();
        assert!(part[length..].starts_with("20"), "{part}");
        format!("{}TIME", &part[..length])
    });
    dated.collect::<String>() + last
}

fn flip(path: PathBuf, text: &str, wrong: &str) {
    let whole = fs::read_to_string(&path).expect("a text");
    assert!(whole.contains(text), "{whole}");
    fs::write(path, whole.replacen(text, wrong, 1)).expect("a file");
}

#[test]
fn a_damaged_state_is_recovered_and_told_once() {
    let sandbox = submitted();
    flip(sandbox.state("state.json"), "\"job_id\": 2", "\"job_id\": 3");
    let status = sandbox.run("status").exits(0);
    assert_snapshot!(status.stderr, @"warning: ROOT/home/.local/state/hsched/state.json is damaged (its checksum does not match); nothing is lost: it is rebuilt from state.json.old and the journal; the next hsched watch repairs it");
    assert!(status.stdout.ends_with("2 pending\n"), "{}", status.stdout);
    assert_snapshot!(doctor(&sandbox), @"note: ROOT/home/.local/state/hsched/state.json is damaged (its checksum does not match); nothing is lost: it is rebuilt from state.json.old and the journal → nothing to do: the next hsched watch, add, submit or cancel repairs it");
    assert_snapshot!(sandbox.run("watch --once").exits(0).stderr, @"warning: ROOT/home/.local/state/hsched/state.json is damaged (its checksum does not match); nothing is lost: it is rebuilt from state.json.old and the journal; the damaged file is kept as state.json.damaged");
    assert_eq!(sandbox.run("watch --once").exits(0).stderr, "");
    assert!(sandbox.run("status vgg19").succeeds().contains("\nr1        2  1 v100"));
    let journal = sandbox.journal();
    assert_eq!(journal.matches("\"event\":\"repaired\",\"file\":\"state.json\"").count(), 1, "{journal}");
    assert_snapshot!(doctor(&sandbox), @"note: ROOT/home/.local/state/hsched/state.json.damaged is a damaged file that hsched replaced and kept → find out why (a full or failing disk, a crash), then remove it");
    assert_eq!(requests(&sandbox), (2, 0));
    // Running and ended jobs are the same as without the damage.
    let sandbox =
        sandbox.printing("squeue", &[&line(1, "resnet18", "RUNNING"), &line(2, "vgg19", "COMPLETED")]);
    sandbox.run("watch --once").exits(0);
    assert_eq!([0, 1].map(|job| sandbox.phase(job)), ["running", "completed"]);
}

#[test]
fn a_state_that_cannot_be_made_whole_is_left_as_it_is() {
    let sandbox = submitted();
    let state = || ["state.json", "state.json.old", "journal"].map(|name| fs::read(sandbox.state(name)).ok());
    flip(sandbox.state("state.json"), "\"job_id\": 2", "\"job_id\": 3");
    flip(sandbox.state("journal"), "\"event\":\"submitted\"", "\"event\":\"submittee\"");
    fs::remove_file(sandbox.state("state.json.old")).expect("a file");
    let before = state();
    assert_snapshot!(undated(&sandbox.run("watch --once").fails(78)), @r"
    error: ROOT/home/.local/state/hsched: the state is damaged and cannot be rebuilt from the other files
      state.json is damaged (its checksum does not match); last changed TIME
      state.json.old is missing
      journal is damaged (line 6 does not match its checksum), is from TIME and has 2 jobs: 1 pending (vgg19), 1 submitting (resnet18)
      the latest run is runs/r1, with the jobs resnet18, vgg19
    hint: nothing was changed; jobs in Slurm keep running: see squeue --me
    hint: to restore the newest of these states: hsched doctor --restore ROOT/home/.local/state/hsched/journal
    hint: anything newer is lost: a job that completed since then runs again, and a job submitted since then may run twice
    hint: if a backup has a newer state.json, restore that file instead
    hint: or start with an empty state, once none of its jobs are in the queue: mv ROOT/home/.local/state/hsched ROOT/home/.local/state/hsched.damaged
    ");
    for command in ["status", "add jobs.yaml", "cancel --all", "watch", SUBMIT] {
        let told = sandbox.run(command).fails(78);
        assert!(
            told.contains("hsched: the state is damaged and cannot be rebuilt from the other files\n"),
            "{told}"
        );
    }
    assert_snapshot!(undated(&doctor(&sandbox)), @"problem: the state cannot be used: state.json is damaged (its checksum does not match); last changed TIME; state.json.old is missing; journal is damaged (line 6 does not match its checksum), is from TIME and has 2 jobs: 1 pending (vgg19), 1 submitting (resnet18); the latest run is runs/r1, with the jobs resnet18, vgg19 → to restore the newest of these states: hsched doctor --restore ROOT/home/.local/state/hsched/journal; hsched status explains the effect; until then, hsched submits no job");
    assert!(state() == before && !sandbox.state("state.json.damaged").exists());
    assert_eq!(requests(&sandbox), (2, 0));
}

#[test]
fn the_older_copy_is_offered_where_it_is_whole() {
    let sandbox = submitted();
    flip(sandbox.state("state.json"), "\"job_id\": 2", "\"job_id\": 3");
    flip(sandbox.state("journal"), "\"event\":\"submitted\"", "\"event\":\"submittee\"");
    let told = sandbox.run("watch --once").fails(78);
    let advice = told.lines().find_map(|line| line.split_once("of these states: hsched ")).expect("advice").1;
    let command = advice.replace("ROOT", &root(&sandbox));
    assert!(doctor(&sandbox).contains(&format!("of these states: hsched {advice}; ")));
    let files = || fs::read_dir(sandbox.state("")).expect("a folder").count();
    let before = files();
    let would = sandbox.run(&format!("{command} --dry-run")).succeeds();
    assert_eq!(files(), before);
    let json = sandbox.run(&format!("{command} --dry-run --format json")).exits(0).json();
    assert_eq!((json["schema"].as_str(), json["dry_run"].as_bool()), (Some("hsched.restore/1"), Some(true)));
    assert_eq!(
        json["jobs"],
        serde_json::json!([{ "name": "resnet18", "state": "submitting" }, { "name": "vgg19", "state": "pending" }])
    );
    assert_eq!(
        json["replaced"][0],
        serde_json::json!({ "file": "state.json", "kept_as": "state.json.damaged" })
    );
    let done = sandbox.run(&command).succeeds();
    let (first, kept) = done.split_once('\n').expect("lines");
    assert!(first.starts_with("restored ROOT/home/.local/state/hsched/journal, which is damaged (line 6 does not match its checksum), is from "), "{done}");
    assert!(first.ends_with(" and has 2 jobs: 1 pending (vgg19), 1 submitting (resnet18)"), "{done}");
    assert_snapshot!(kept, @r"
    kept state.json as state.json.damaged
    kept state.json.old as state.json.old.damaged
    kept journal as journal.damaged
    ");
    assert_eq!(would.replace("would restore", "restored").replace("would keep", "kept"), done);
    assert_snapshot!(sandbox.run("doctor --restore state.json.old.damaged").fails(78), @r"
    error: ROOT/home/.local/state/hsched: the state is intact; nothing was restored
    hint: to return to an older state anyway, first move state.json, state.json.old and journal away; jobs that completed since then run again
    ");
    assert_eq!(sandbox.run("watch --once").exits(0).stderr, "");
    assert!(sandbox.run("status").succeeds().ends_with("2 pending\n"));
    assert_eq!(requests(&sandbox), (2, 0));
}

/// A bare name refers to the state directory only if it is the name of a file of the state.
#[test]
fn a_backup_is_restored_from_the_directory_in_which_it_is() {
    let sandbox = submitted();
    fs::copy(sandbox.state("state.json"), sandbox.work("backup.json")).expect("a copy");
    for name in ["state.json", "state.json.old", "newest"] {
        fs::remove_file(sandbox.state(name)).expect("a file");
    }
    fs::write(sandbox.state("journal"), "nonsense\n").expect("a file");
    assert_snapshot!(sandbox.run("doctor --restore bakcup.json").fails(78), @r"
    error: ROOT/home/desk/bakcup.json is missing
    hint: the names state.json, state.json.old and journal mean the files in the state directory; for a file elsewhere, give its path, such as ./state.json
    ");
    let told = sandbox.run("doctor --restore state.json").fails(78);
    assert!(told.starts_with("error: ROOT/home/.local/state/hsched/state.json is missing\n"), "{told}");
    let done = sandbox.run("doctor --restore backup.json").succeeds();
    assert!(done.starts_with("restored ROOT/home/desk/backup.json, which is from "), "{done}");
    assert_eq!(requests(&sandbox), (2, 0));
}

#[test]
fn damaged_speeds_are_set_aside_and_the_jobs_go_on() {
    let sandbox = submitted();
    sandbox.run("cache set resnet18 v100 644").succeeds();
    let path = sandbox.state("throughput.json");
    let speeds = fs::read(&path).expect("a file");
    let flipped = |byte: u8| {
        let mut bytes = speeds.clone();
        let place = speeds.len() / 2;
        bytes[place] = byte;
        bytes
    };
    for (number, damaged) in
        [Vec::new(), flipped(0xff), flipped(b'}'), speeds[..60].to_vec()].into_iter().enumerate()
    {
        fs::write(&path, &damaged).expect("a file");
        let status = sandbox.run("status").exits(0);
        assert!(status.stderr.contains("throughput.json is damaged ("), "{}", status.stderr);
        let told = sandbox.run("watch --once").exits(0).stderr;
        let name = if number == 0 { String::new() } else { format!("-{}", number + 1) };
        let name = format!("throughput.json.damaged{name}");
        assert!(told.contains(&format!("; the damaged file is kept as {name}\n")), "{told}");
        assert!(!path.exists() && fs::read(sandbox.state(&name)).expect("is kept") == damaged);
        assert_eq!(sandbox.run("watch --once").exits(0).stderr, "");
    }
    // The speed can be read but is wrong.
    fs::write(&path, &speeds).expect("a file");
    flip(path.clone(), "644", "645");
    let planned = sandbox.run("plan jobs.yaml --cluster cluster.yaml").exits(0);
    assert_snapshot!(planned.stderr, @r#"warning: ROOT/home/.local/state/hsched/throughput.json is damaged (its checksum does not match); hsched uses the speeds of the job files until it has measured new ones; if you edited it, set its "sha256" to "edited""#);
    assert!(
        sandbox
            .run("status")
            .exits(0)
            .stderr
            .contains("throughput.json is damaged (its checksum does not match); ")
    );
    fs::rename(&path, sandbox.path("damaged.json")).expect("a file");
    let damaged = sandbox.path("damaged.json").display().to_string();
    assert!(
        sandbox
            .run(&format!("cache import {damaged}"))
            .fails(78)
            .contains("damaged.json: its checksum does not match\n")
    );
    // A file of another version is not damaged.
    fs::write(&path, "{\"schema\": \"hsched.cache/3\"}").expect("a file");
    let told = sandbox.run("watch --once").fails(78);
    assert!(told.contains("throughput.json: its schema is \"hsched.cache/3\"; this version reads"), "{told}");
}

/// Commands that only read go on without damaged speeds; commands that change them keep the damaged file.
#[test]
fn damaged_speeds_end_no_command() {
    let sandbox = submitted();
    sandbox.run("cache set m v100 5").succeeds();
    let speeds = sandbox.run("cache export --format csv").succeeds();
    fs::write(sandbox.work("speeds.csv"), speeds).expect("a file");
    let path = sandbox.state("throughput.json");
    let damage = || fs::write(&path, "garbage").expect("a file");
    damage();
    for command in [
        "plan jobs.yaml --cluster cluster.yaml",
        "submit jobs.yaml --cluster cluster.yaml --dry-run",
        "cache show",
        "cache export",
        "cache set m v100 5 --dry-run",
    ] {
        let ended = sandbox.run(command).exits(0);
        assert_eq!(
            ended.stderr.matches("throughput.json is damaged (").count(),
            1,
            "{command}: {}",
            ended.stderr
        );
        assert_eq!(fs::read_to_string(&path).expect("a file"), "garbage", "{command}");
    }
    for (number, command) in ["cache set m v100 5", "cache import speeds.csv"].into_iter().enumerate() {
        damage();
        let told = sandbox.run(command).exits(0).stderr;
        let kept = format!("throughput.json.damaged{}", if number == 0 { "" } else { "-2" });
        assert!(told.contains(&format!("; the damaged file is kept as {kept}\n")), "{told}");
        assert_eq!(fs::read_to_string(sandbox.state(&kept)).expect("is kept"), "garbage");
        assert!(sandbox.run("cache show m").succeeds().contains("\nm "));
    }
    damage();
    assert!(sandbox.run("cache forget m").fails(1).contains("no speed is known for m"));
    assert_eq!(fs::read_to_string(&path).expect("a file"), "garbage");
    // A submission keeps the damaged file, as `watch` does.
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", THREE);
    sandbox.run("cache set m v100 5").succeeds();
    fs::write(sandbox.state("throughput.json"), "garbage").expect("a file");
    let told = sandbox.run(SUBMIT).exits(0).stderr;
    assert!(told.contains("; the damaged file is kept as throughput.json.damaged"), "{told}");
    assert!(!sandbox.state("throughput.json").exists());
}

#[test]
fn the_doctor_reads_every_file() {
    let sandbox = submitted();
    assert_snapshot!(doctor(&sandbox), @"ok: intact: the state of 2 jobs, the plans of 1 run → -");
    flip(sandbox.state("state.json.old"), "\"added\"", "\"addee\"");
    fs::write(sandbox.state("newest"), "{}").expect("a file");
    flip(sandbox.state("journal"), "\"event\":\"added\"", "\"event\":\"addee\"");
    flip(sandbox.state("runs/r1/plan.json"), "\"seed\": 0", "\"seed\": 4");
    fs::write(sandbox.state("throughput.json"), "").expect("a file");
    fs::create_dir_all(sandbox.state("runs/r1/report/vgg19")).expect("a folder");
    fs::write(sandbox.state("runs/r1/report/vgg19/rank-0.jsonl"), "{epoch: 1}\n").expect("a file");
    assert_snapshot!(doctor(&sandbox), @r"
    note: ROOT/home/.local/state/hsched/journal is damaged (line 1 does not match its checksum); no job is lost: state.json is intact, and hsched asks Slurm about anything newer → nothing to do: the next hsched watch, add, submit or cancel repairs it
    note: ROOT/home/.local/state/hsched/throughput.json is damaged (not a file of measured speeds, or a damaged one: EOF while parsing a value at line 1 column 0); hsched uses the speeds of the job files until it has measured new ones → nothing to do: the next hsched watch, add, submit or cancel repairs it
    note: ROOT/home/.local/state/hsched/state.json.old is damaged (its checksum does not match) → nothing to do: the next change of the state replaces it
    note: ROOT/home/.local/state/hsched/newest is damaged → nothing to do: the next hsched watch, add, submit or cancel repairs it
    note: ROOT/home/.local/state/hsched/runs/r1/plan.json is not the plan that resnet18.sbatch was made from → the job keeps running; only hsched report and resubmitting the script by hand need this file
    note: ROOT/home/.local/state/hsched/runs/r1/plan.json is not the plan that vgg19.sbatch was made from → the job keeps running; only hsched report and resubmitting the script by hand need this file
    note: vgg19: line 1 of ROOT/home/.local/state/hsched/runs/r1/report/vgg19/rank-0.jsonl cannot be read, key must be a string: {epoch: 1} → fix the program that writes the reports; hsched ignores such lines
    ");
    fs::write(sandbox.state("runs/r1/plan.json"), "{").expect("a file");
    fs::remove_file(sandbox.state("runs/r1/vgg19.sbatch")).expect("a file");
    let found = doctor(&sandbox);
    assert!(
        found.contains("/runs/r1/plan.json is damaged (not a plan file: EOF while parsing an object"),
        "{found}"
    );
}
