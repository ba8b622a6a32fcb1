//! `hsched init`: files that work for a plan unchanged, and that replace others only with `--force`.

use crate::sandbox::Sandbox;

/// Two partitions, the default one without GPUs, and names that YAML and TOML would interpret as other
/// values.
const SINFO: [&str; 2] = [
    "c1|cpu*|1:00:00|idle|(null)|gpu:0|0/8/0/8|64000|0|(null)|none",
    "g1|big\"one|infinite|idle|gpu:1080:2,gpu:a100_3g.20gb:2|gpu:0|0/8/0/8|64000|0|(null)|none",
];

fn with_slurm() -> Sandbox {
    Sandbox::with_slurm()
        .printing("sinfo", &SINFO)
        .program("scontrol", "echo 'AccountingStorageType = accounting_storage/slurmdbd'")
        .program("sacctmgr", "printf 'c|def-me|\\nc|rrg-lab|\\nc|def-me|big\\n'")
}

#[test]
fn a_cluster_gives_types_partitions_and_accounts() {
    let sandbox = with_slurm();
    let said = sandbox.run("init new/place").succeeds();
    assert!(said.contains("wrote new/place/jobs.yaml\nwrote new/place/hsched.toml\n"), "{said}");
    let next = "  cd new/place\n  hsched plan jobs.yaml\n  hsched submit jobs.yaml --dry-run\n";
    assert!(said.ends_with(next), "{said}");
    assert!(!sandbox.work("new/place/cluster.yaml").exists());
    let jobs = sandbox.text(&sandbox.work("new/place/jobs.yaml"));
    assert!(jobs.contains("\n      \"1080\": 100\n      a100_3g.20gb: 100\n"), "{jobs}");
    let settings = sandbox.text(&sandbox.work("new/place/hsched.toml"));
    for line in [
        "# Yours are: def-me, rrg-lab",
        "#account = \"def-me\"",
        "#   cpu: the default, up to 1 h 00 min; no GPUs",
        "#   big\"one: no time limit; 2 1080, 2 a100_3g.20gb",
        "partition = \"big\\\"one\"",
        "#\"a100_3g.20gb\" = 2",
    ] {
        assert!(settings.lines().any(|settings_line| settings_line == line), "{line}\n{settings}");
    }
    let call = sandbox.calls("sacctmgr").remove(0);
    assert_eq!((call.len(), &call[..4]), (6, &["-n", "-P", "show", "assoc"].map(str::to_owned)[..]));
    let plan = sandbox.command(&["plan", "jobs.yaml"]).current_dir(sandbox.work("new/place")).output();
    sandbox.ran(&plan.expect("runs")).exits(0);
}

#[test]
fn without_slurm_there_is_an_example_cluster() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("init . --force").exits(0);
    assert_eq!(
        ran.stderr,
        "note: Slurm is not available here: the cluster file is an example; replace it with your cluster\n\
         note: to run commands on this machine, a job needs only a name and a command: hsched init --local\n"
    );
    let next = ran.stdout.lines().find(|line| line.starts_with("  hsched plan")).expect("a command");
    assert_eq!(next, "  hsched plan jobs.yaml --cluster cluster.yaml");
    sandbox.run(next.trim().trim_start_matches("hsched ")).succeeds();
    assert!(ran.stdout.ends_with("\n  hsched run jobs.yaml\n"), "{}", ran.stdout);
    let shown = sandbox.run("init other --cluster cluster.yaml").succeeds();
    assert!(
        shown.contains("  cd other\n  hsched plan jobs.yaml --cluster ROOT/home/desk/cluster.yaml\n"),
        "{shown}"
    );
    assert!(!sandbox.work("other/cluster.yaml").exists());
}

#[test]
fn for_this_machine_a_job_file_of_a_name_and_a_command_is_enough() {
    let sandbox = with_slurm();
    let said = sandbox.run("init new --local").succeeds();
    let expected = "wrote new/jobs.yaml\n\nreplace the command in new/jobs.yaml, then run:\n  cd new\n  hsched run jobs.yaml\n";
    assert_eq!(said, expected);
    assert!(!sandbox.work("new/hsched.toml").exists() && sandbox.calls("sinfo").is_empty());
    let refused = sandbox.run("run new/jobs.yaml --devices cpu:1").fails(78);
    assert!(refused.contains("command"), "{refused}");
    let text = sandbox.text(&sandbox.work("new/jobs.yaml"));
    let edited = text.lines().map(|line| {
        if line.contains("REPLACE") && line.contains("command") { "    command: \"true\"" } else { line }
    });
    let sandbox =
        sandbox.file("mine.yaml", edited.collect::<Vec<_>>().join("\n")).variable("PATH", "/usr/bin:/bin");
    let ran = sandbox.run("run mine.yaml --devices cpu:1").exits(0);
    assert!(ran.stdout.contains("1 completed"), "{ran:?}");
}

#[test]
fn settings_that_init_wrote_are_loaded() {
    let sandbox = Sandbox::new();
    sandbox.run("init . --force").exits(0);
    let shown = sandbox.run("config show").succeeds();
    assert!(shown.lines().skip(1).all(|line| line.ends_with("default")), "{shown}");
}

#[test]
fn nothing_is_overwritten_unless_that_is_wished() {
    let sandbox = Sandbox::new().file("hsched.toml", "account = \"mine\"\n");
    let error = sandbox.run("init first.yaml").fails(1);
    assert_eq!(
        error,
        "error: nothing was written, because these files exist: hsched.toml, cluster.yaml\n\
         hint: overwrite with --force, print the files with --dry-run, or choose another directory\n"
    );
    assert!(!sandbox.work("first.yaml").exists());
    let printed = sandbox.run("init first.yaml --dry-run").exits(0).stdout;
    assert!(
        printed.starts_with("# ---- first.yaml\n") && printed.contains("# ---- hsched.toml\n"),
        "{printed}"
    );
    assert!(!sandbox.work("first.yaml").exists());
    sandbox.run("init first.yaml --force").exits(0);
    assert!(!sandbox.text(&sandbox.work("hsched.toml")).contains("\"mine\""));
    let error = sandbox.run("init cluster.yaml/below").fails(1);
    assert!(error.contains("cannot write"), "{error}");
}

#[test]
fn a_controller_that_is_down_is_no_machine_without_slurm() {
    let sandbox = Sandbox::new().program("sinfo", "echo 'Unable to contact slurm controller' >&2; exit 1");
    assert!(sandbox.run("init new").fails(69).contains("cannot be reached"));
    assert!(!sandbox.work("new").exists());
}
