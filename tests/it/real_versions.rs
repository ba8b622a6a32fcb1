//! `dev-cluster --slurm`: the programs of that version, and the message if there is none.

use std::process::{Command, Stdio};

use crate::real_cluster::{repository, version};
use crate::real_user::{Done, user};

fn dev_cluster(words: &[&str]) -> Command {
    let mut command = Command::new(repository().join("slurm/dev-cluster"));
    command.args(words).stdin(Stdio::null());
    command
}

/// With the output of `dev-cluster env`, commands and jobs of the caller use the cluster's version of Slurm.
#[test]
fn the_environment_is_that_of_the_version() {
    let Some(user) = user("version", "mech") else { return };
    let script = repository().join("slurm/dev-cluster").display().to_string();
    let lines = r#"eval "$("$0" env --dir "$1")"; sinfo --version; srun -p mech bash -c 'srun --version; echo "$SLURM_CONF $PWD"'"#;
    let folder = user.cluster_folder().display().to_string();
    let mut shell = user.program("bash");
    let done = Done::of(shell.env_remove("SLURM_CONF").args(["-c", lines, &script, &folder]));
    let said: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(said.len(), 3, "{}{}", done.stdout, done.stderr);
    assert_eq!(said[0], said[1], "a job has the same version");
    assert_eq!(said[2], format!("{folder}/etc/slurm.conf {}", user.folder.display()));
    if let Some(version) = version() {
        assert!(said[0].contains(&format!(" {version}.")), "{} is not {version}", said[0]);
    }
}

#[test]
fn a_root_that_cannot_be_made_has_an_exit_code_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    let cluster = folder.path().join("c").display().to_string();
    let up = ["up", "--dir", &cluster, "--slurm", "24.11"];
    // There is neither a confirmation nor a user to ask.
    let done = Done::of(dev_cluster(&up).env("XDG_CACHE_HOME", &cache));
    assert_eq!((done.code, done.stdout.as_str()), (Some(3), ""), "{}", done.stderr);
    assert!(done.stderr.contains("dev-cluster: Slurm 24.11: "), "{}", done.stderr);
    // The archive does not answer.
    let yes = [&up[..], &["--yes"]].concat();
    let mut unreachable = dev_cluster(&yes);
    unreachable.env("XDG_CACHE_HOME", &cache).env("http_proxy", "http://127.0.0.1:9");
    let done = Done::of(&mut unreachable);
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(
        !folder.path().join("c").exists() && !cache.join("hsched/slurm-24.11").exists(),
        "{}",
        done.stderr
    );

    for (words, said) in [
        (&["up", "--slurm", "23.02"][..], "--slurm 23.02: system, 20.11, 22.05, 24.11, 26.05"),
        (&["down", "--slurm", "24.11"], "--slurm and --yes belong to up and install"),
        (&["up", "--remove"], "--remove belongs to install"),
    ] {
        let done = Done::of(&mut dev_cluster(words));
        assert_eq!((done.code, done.stderr), (Some(2), format!("dev-cluster: {said}\n")));
    }
    let done = Done::of(dev_cluster(&["install", "--remove"]).env("XDG_CACHE_HOME", &cache));
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "there is none");
}
