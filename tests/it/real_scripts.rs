//! `hsched submit SCRIPT` on a real Slurm: scripts are followed to the ends that Slurm gives them.

use serde_json::{Value, json};

use crate::real_user::{TestUser, user, wait_for};

/// Prints its job name and directory, waits for a file, and exits with the status in it.
const SCRIPT: &str = "#!/bin/bash\n#SBATCH --gres=gpu:v100:1\n#SBATCH --time=5\n#SBATCH -o out-%x-%j.txt\n\
    #SBATCH --comment='for \"ann\"'\necho \"$SLURM_JOB_NAME in $PWD\"\n\
    until [ -e go ]; do sleep 0.1; done\nexit $(cat go)\n";

fn scripts(user: &TestUser) -> Vec<Value> {
    let done = user.hsched(&["status", "--format", "json"]);
    let value: Value = serde_json::from_str(&done.stdout).expect("JSON");
    value["scripts"].as_array().expect("a list").clone()
}

/// Runs turns of `watch` until the script of this name is in a state.
fn reaches(user: &TestUser, name: &str, state: &str) -> Value {
    wait_for(&format!("{name} {state}"), || {
        assert_eq!(user.hsched(&["watch", "--once"]).code, Some(0));
        scripts(user).into_iter().find(|script| script["name"] == name && script["state"] == state)
    })
}

#[test]
fn a_script_is_followed_to_its_end() {
    let Some(user) = user("scripts", "") else { return };
    user.write("train.sh", SCRIPT);
    let done = user.hsched(&["submit", "train.sh"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let again = user.hsched(&["submit", "train.sh"]);
    assert!(
        again.code == Some(1) && again.stderr.contains("already in the queue: train.sh"),
        "{}",
        again.stderr
    );
    // Another script with another name, which fails, and an array of tasks, one of which fails.
    user.write("fails.sh", "#!/bin/bash\nexit 85\n");
    user.write("tasks.sh", "#!/bin/bash\n#SBATCH --array=1-3 -o t_%a_%A\necho $SLURM_ARRAY_TASK_ID\n[ $SLURM_ARRAY_TASK_ID != 2 ]\n");
    for arguments in [&["submit", "fails.sh", "--", "-J", "a b"][..], &["submit", "tasks.sh"]] {
        assert_eq!(user.hsched(arguments).code, Some(0));
    }
    let running = reaches(&user, "train.sh", "running");
    assert_eq!((&running["limit_s"], &running["nodes"].is_string()), (&json!(300.0), &true));
    let id = running["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(
        running["output"].as_str().map(|path| path.ends_with(&format!("out-train.sh-{id}.txt"))),
        Some(true)
    );
    let failed = reaches(&user, "a_b", "failed");
    assert_eq!((&failed["exit_code"], &failed["slurm_state"]), (&json!(85), &json!("FAILED")));
    let tasks = reaches(&user, "tasks.sh", "failed");
    let reason = "1 of 3 tasks did not complete; the first failed with exit status 1";
    assert_eq!(tasks["reason"], reason);
    assert_eq!(user.hsched(&["logs", "tasks.sh", "--task", "2"]).stdout, "2\n");
    user.write("go", "0\n");
    let watch = user.hsched(&["watch", "--interval", "1s"]);
    assert!(watch.stdout.contains("train.sh: completed, "), "{}{}", watch.stdout, watch.stderr);
    assert_eq!(reaches(&user, "train.sh", "completed")["exit_code"], 0);
    let logs = user.hsched(&["logs", "train.sh"]).stdout;
    assert_eq!(logs, format!("train.sh in {}\n", user.folder.display()));
    assert_eq!(user.ask("squeue", &["-h", "-t", "all", "-n", "train.sh", "-o", "%i"]).lines().count(), 1);
}

#[test]
fn a_script_that_is_cancelled_is_gone() {
    let Some(user) = user("scripts-cancel", "") else { return };
    user.write("train.sh", SCRIPT);
    assert_eq!(user.hsched(&["submit", "train.sh", "--", "-J", "my script"]).code, Some(0));
    reaches(&user, "my_script", "running");
    assert_eq!(user.hsched(&["cancel", "my_script"]).code, Some(0));
    assert_eq!(reaches(&user, "my_script", "cancelled")["slurm_state"], "CANCELLED");
}
