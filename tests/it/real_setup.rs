//! Commands that run before the ranks, and texts that a shell or Slurm could misinterpret.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::real_user::{Ended, PROBE, TestUser, job, user};

fn out(user: &TestUser<'_>, name: &str) -> String {
    user.read(format!("{name}.out"))
}

#[test]
fn setup_runs_once_and_node_setup_once_per_node_for_all_its_ranks() {
    let Some(user) = user("setup", "mech") else { return };
    let mut job = job("setup", 5, PROBE);
    job["env"] = json!(["PROBE=probe", "GONE=here"]);
    job["setup"] = "echo once >>setup-runs\nexport FROM_SETUP=$HSCHED_JOB-$UNSET_IS_FINE".into();
    job["node_setup"] = json!([
        "echo $SLURMD_NODENAME >>node-runs; sleep 0.3",
        "export TOKEN=$SLURMD_NODENAME-$RANDOM$RANDOM PATH=/venv/bin:$PATH",
        "export MULTI=$'two\\nlines \"quoted\" $(date) \\\\'",
        "unset GONE; umask 027",
        "venv_f() { echo from-function; }; export -f venv_f",
        "sleep 5 & mkdir -p probe; cd probe/..",
    ]);
    job["command"] = json!(["bash", "-c", format!("export PWD SEEN=$(venv_f)-$(umask); {PROBE}")]);
    let _ = user.plan_over(&["b1 {v100: 2}", "b2 {v100: 2}", "a1 {t4: 1}"], &[job]);
    let ended = user.run(&["plan.json"]);
    assert!(ended.completed(), "{ended:?}: {}", out(&user, "setup"));
    assert_eq!(user.read("setup-runs"), "once\n");
    let mut nodes: Vec<String> = user.read("node-runs").lines().map(str::to_owned).collect();
    nodes.sort();
    let probes = user.probes("probe");
    let mut expected: Vec<&str> = probes.iter().map(|probe| probe["SLURMD_NODENAME"].as_str()).collect();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!((nodes.len(), nodes), (3, expected.iter().map(|&name| name.to_owned()).collect()));
    for probe in &probes {
        let of_node = probes.iter().find(|other| other["SLURMD_NODENAME"] == probe["SLURMD_NODENAME"]);
        assert_eq!(probe["TOKEN"], of_node.expect("itself")["TOKEN"]);
        assert!(probe["TOKEN"].starts_with(&probe["SLURMD_NODENAME"]), "{}", probe["TOKEN"]);
        assert!(probe["PATH"].starts_with("/venv/bin:"), "{}", probe["PATH"]);
        assert_eq!(probe["MULTI"], "two\nlines \"quoted\" $(date) \\");
        assert_eq!((probe.get("GONE"), probe["SEEN"].as_str()), (None, "from-function-0027"));
        assert_eq!(probe["FROM_SETUP"], "setup-");
        assert_eq!(probe["PWD"], user.folder.display().to_string());
    }
}

/// Runs a job with a line that fails, and checks the message about the line in the output.
fn check_failing(user: &TestUser<'_>, name: &str, (key, lines): (&str, Value), exit: &str, message: &str) {
    // The signal that ends the ranks may reach their `sleep` before their shell.
    let mut job = job(name, 3, "sleep 30 && echo >>saved");
    job[key] = lines;
    let _ = user.plan_over(&["b1 {v100: 2}", "a1 {t4: 1}"], &[job]);
    let ids = user.submit(&["plan.json", "--pin", "--run-id", name]);
    let Ended { states, exit: real } = user.ended(&ids[name]);
    let text = out(user, name);
    assert_eq!((states, real.as_str()), (vec!["FAILED".to_owned(); 2], exit), "{name}: {text}");
    assert!(text.contains(message), "{name}: {text}");
    assert_eq!(user.read("saved"), "", "{name}: no rank may go on");
}

#[test]
fn a_line_that_fails_fails_the_job_and_is_named() {
    let Some(user) = user("failing", "mech") else { return };
    let key = ("node_setup", json!(["true", "[ $SLURMD_NODENAME != a1 ] || (exit 7)"]));
    let message = "hsched: error: node_setup line 2 failed with status 7 on a1: [ $SLURMD_NODENAME != a1 ]";
    check_failing(&user, "node-line", key, "7:0", message);
    let key = ("node_setup", json!(["exit 0"]));
    check_failing(&user, "node-exit", key, "1:0", "a line of node_setup ended the shell");
    let key = ("setup", json!(["echo fine $UNSET", "(exit 3)"]));
    check_failing(&user, "line", key, "3:0", "hsched: error: setup line 2 failed with status 3 on ");
    let key = ("setup", json!(["exit 0"]));
    check_failing(&user, "exit", key, "1:0", "hsched: error: a command of setup exited the script");
}

/// Characters that a shell, sbatch or a template could interpret.
const EVIL: &str = "a' $(touch pwned) `touch pwned`; touch pwned #\\ \"q\" %j %% {{ x }} \u{20ac} ~ * \\";

#[test]
fn hostile_texts_arrive_unchanged_and_nothing_in_them_acts() {
    let Some(user) = user("hostile", "mech") else { return };
    let folder = format!("work [x]* {EVIL}").replace('/', "_");
    std::fs::create_dir(user.folder.join(&folder)).expect("a folder");
    let lines = format!("{EVIL}\n#SBATCH hetjob\r\n'x\t\u{1}");
    let arguments = [EVIL, &lines, "", "*", "~", "-n", "--help", "\\"];
    let show = r#"import json, os, sys
json.dump([sys.argv[1:], os.environ["E1"], os.environ["E2"], os.getcwd(), os.environ["HSCHED_CHECKPOINT_DIR"]],
          open("seen-" + os.environ["RANK"], "w"))"#;
    let mut job = job("hostile", 3, "");
    job["command"] = [&["python3", "-c", show], &arguments[..]].concat().into();
    job["env"] = json!({"E1": lines, "E2": "a,b=c,,"});
    job["workdir"] = folder.clone().into();
    job["checkpoint"]["dir"] = format!("saved {EVIL}").into();
    let _ = user.plan_over(&["b1 {v100: 2}", "a1 {t4: 1}"], &[job]);
    let ended = user.run(&["plan.json"]);
    let workdir = user.folder.join(&folder);
    let output = user.read(workdir.join("hostile.out"));
    assert!(ended.completed(), "{ended:?}: {output}");
    let directory = workdir.display().to_string();
    let expected = json!([arguments, lines, "a,b=c,,", directory, format!("{directory}/saved {EVIL}")]);
    for rank in 0..3 {
        let seen: Value =
            serde_json::from_str(&user.read(workdir.join(format!("seen-{rank}")))).expect("JSON");
        assert_eq!(seen, expected, "rank {rank}");
    }
    assert!(workdir.join(format!("saved {EVIL}")).is_dir());
    let mut pwned = String::new();
    for place in [&user.folder, &workdir] {
        for entry in std::fs::read_dir(place).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            if name.to_string_lossy().contains("pwned") && !name.to_string_lossy().contains("touch") {
                let _ = write!(pwned, "{}", name.display());
            }
        }
    }
    assert_eq!(pwned, "");
}
