//! `hsched when` for jobs longer than a time limit, jobs behind others, and jobs without a request.

use crate::cli_when::{JOB, SNAPSHOT, small};
use crate::sandbox::Sandbox;

#[test]
fn a_job_that_is_too_long_for_its_partition_is_cut_into_pieces() {
    let snapshot = SNAPSHOT.replace(
        "\"jobs\"",
        "\"partitions\": [{\"name\": \"short\", \"default\": true, \"max_time_s\": 10800}], \"jobs\"",
    );
    let snapshot = snapshot
        .replace("\"gpus\": [{\"type\": \"t4\"", "\"partitions\": [\"short\"], \"gpus\": [{\"type\": \"t4\"");
    let saves = JOB.replace("command", "checkpoint: {grace: 120s}, command");
    let sandbox = Sandbox::new().file("jobs.yaml", saves).file("queue.json", snapshot);
    // The job takes ten hours on one T4, in pieces of three hours, of which two minutes are reserved for
    // saving.
    let text = sandbox.run("when jobs.yaml --snapshot queue.json").succeeds();
    assert!(text.contains("4 runs of 3 h") && text.contains("(needs checkpoints)"), "{text}");
}

#[test]
fn a_job_that_cannot_go_on_after_a_limit_gets_no_request_that_ends_it() {
    let partitions = |longest: u32| {
        let both = format!(
            "\"partitions\": [{{\"name\": \"short\", \"default\": true, \"max_time_s\": {longest}}}], \"jobs\""
        );
        let snapshot = SNAPSHOT.replace("\"jobs\"", &both);
        ["a1", "t1"].iter().fold(snapshot, |text, node| {
            let name = format!("\"name\": \"{node}\"");
            text.replace(&name, &format!("{name}, \"partitions\": [\"short\"]"))
        })
    };
    let sandbox = Sandbox::new().file("jobs.yaml", JOB).file("queue.json", partitions(10_800));
    // The job takes ten hours on one T4, and at most two on A100.
    let why = "their time limit (3 h) is shorter than the job, and the job starts over after the limit; if its program can resume, add the key checkpoint";
    let json = |command: &str| {
        sandbox.run(&format!("{command} --snapshot queue.json --futures 5 --budget 1h --format json")).json()
    };
    let when = &json("when jobs.yaml")["jobs"][0];
    let options = when["options"].as_array().expect("options");
    assert!(options.iter().all(|option| option["type"] == "a100" && option["pieces"] == 1), "{when}");
    let note = format!("train: 1 of {} requests are left out: {why}", options.len() + 1);
    assert!(when["notes"].as_array().expect("notes").contains(&note.as_str().into()), "{when}");
    let plan = json("plan jobs.yaml --queue");
    assert!(plan["notes"].as_array().expect("notes").contains(&note.as_str().into()), "{plan}");
    assert_eq!(plan["jobs"][0]["request"]["type"], "a100");
    // If no request remains, this is the reason.
    let sandbox = sandbox.file("queue.json", partitions(900));
    let why = "every time limit here (15 min) is shorter than the job (30 min 00 s at best), and the job starts over after the limit; if its program can resume, add the key checkpoint";
    for command in ["when jobs.yaml", "plan jobs.yaml --queue"] {
        let command = format!("{command} --snapshot queue.json");
        let text = sandbox.run(&command).exits(3).stdout;
        assert!(text.starts_with("train: every time limit here (15 min)"), "{text}");
        let json = sandbox.run(&format!("{command} --format json")).exits(3).json();
        assert_eq!(json["jobs"][0]["reason"], why, "{json}");
    }
}

#[test]
fn a_job_that_was_seen_to_save_is_cut_into_pieces() {
    let snapshot = SNAPSHOT.replace(
        "\"jobs\"",
        "\"partitions\": [{\"name\": \"short\", \"default\": true, \"max_time_s\": 10800}], \"jobs\"",
    );
    let snapshot = snapshot.replace("\"name\": \"t1\"", "\"name\": \"t1\", \"partitions\": [\"short\"]");
    let pieces = |command: &str| {
        let jobs = JOB.replace("[x]", &format!("\"{command}\", retries: 0"));
        let sandbox = Sandbox::new().file("jobs.yaml", jobs).file("queue.json", &snapshot);
        let sandbox = sandbox.variable("PATH", "/usr/local/bin:/usr/bin:/bin");
        sandbox.run("run jobs.yaml --devices t4:1 --simulated").exits(1);
        let json = sandbox.run("when jobs.yaml --snapshot queue.json --futures 5 --format json").json();
        json["jobs"][0]["options"][0]["pieces"].as_u64()
    };
    assert_eq!(pieces("exit 3"), None);
    assert_eq!(pieces("touch $HSCHED_CHECKPOINT_DIR/model; exit 3"), Some(4));
}

/// Returns a sandbox with the job and with a job that depends on it.
fn behind() -> Sandbox {
    let jobs = format!(
        "{}\n- {{name: eval, after: train, samples_per_epoch: 10, epochs: 1, global_batch: 10, model_size: 0MB, \
         throughput: {{t4: 10}}, command: [x]}}\n",
        JOB.replace("jobs: [", "jobs:\n- ").trim_end_matches(']')
    );
    small().file("jobs.yaml", jobs)
}

#[test]
fn a_job_behind_another_asks_for_nothing_yet() {
    let why = "depends on train: hsched watch submits it once it has completed";
    let sandbox = behind();
    for command in ["when jobs.yaml", "plan jobs.yaml --queue"] {
        let command = format!("{command} --snapshot queue.json --futures 5 --budget 1h");
        let text = sandbox.run(&command).succeeds();
        assert!(text.contains(&format!("eval: {why}")), "{text}");
        let json = sandbox.run(&format!("{command} --format json")).exits(0).json();
        assert_eq!(json["jobs"][1]["reason"], why, "{json}");
    }
    let plan = "plan jobs.yaml --queue --snapshot queue.json --futures 5 --budget 1h --format json";
    let (alone, both) = (small().run(plan).json(), sandbox.run(plan).json());
    assert_eq!(alone["jobs"][0]["request"], both["jobs"][0]["request"]);
}

#[test]
fn a_job_without_a_request_says_why() {
    let jobs = JOB.replace("t4: 10, a100: 50", "h100: 10");
    let sandbox = small().file("jobs.yaml", jobs);
    let why = "no h100 here: the cluster has a100, t4";
    for command in ["when jobs.yaml", "plan jobs.yaml --queue"] {
        let command = format!("{command} --snapshot queue.json");
        let text = sandbox.run(&command).exits(3).stdout;
        assert!(text.starts_with(&format!("train: {why}\n")) && !text.contains('█'), "{text}");
        let json = sandbox.run(&format!("{command} --format json")).exits(3).json();
        assert_eq!(json["jobs"][0]["reason"], why, "{json}");
    }
}

#[test]
fn measured_speeds_are_named() {
    let sandbox = small();
    sandbox.run("cache set train a100 100").succeeds();
    let note = "train: speeds from the cache: a100 (set by hand)";
    for command in ["when jobs.yaml", "plan jobs.yaml --queue"] {
        let command = format!("{command} --snapshot queue.json --futures 5 --budget 1h");
        let json = sandbox.run(&format!("{command} --format json")).json();
        let notes = if command.starts_with("when") { &json["jobs"][0]["notes"] } else { &json["notes"] };
        assert!(notes.as_array().is_some_and(|all| all.contains(&note.into())), "{notes}");
        assert!(sandbox.run(&command).succeeds().contains("speeds from the cache: a100"));
    }
}

#[test]
fn a_few_futures_are_counted_in_place_of_an_interval() {
    let sandbox = small().variable("COLUMNS", "160");
    for command in ["when jobs.yaml", "plan jobs.yaml --queue"] {
        let text =
            sandbox.run(&format!("{command} --snapshot queue.json --futures 3 --budget 1h")).succeeds();
        assert!(text.contains("(3 futures)") && !text.contains("by limits"), "{text}");
    }
}

#[test]
fn as_many_futures_are_looked_at_as_wanted() {
    let sandbox = small();
    let futures = |more: &str| {
        let plan = "plan jobs.yaml --queue --snapshot queue.json --format json --budget 1h";
        sandbox.run(&format!("{plan} {more}")).json()["jobs"][0]["request"]["futures"].clone()
    };
    assert_eq!((futures(""), futures("--futures 30")), (24.into(), 30.into()));
}

#[test]
fn what_says_nothing_to_the_queue_is_refused() {
    let sandbox = small();
    let error = sandbox.run("plan jobs.yaml --queue --snapshot queue.json --policy jps").fails(2);
    assert!(error.contains("--policy"), "{error}");
    for command in ["plan jobs.yaml --futures 9", "submit jobs.yaml --cost-weight 1"] {
        let error = sandbox.run(command).fails(2);
        assert!(error.contains("only work with --queue\nhint: add --queue"), "{error}");
    }
}
