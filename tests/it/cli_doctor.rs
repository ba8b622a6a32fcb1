//! `hsched doctor`: one line per check, and an exit code that shows the worst result.

use crate::sandbox::Sandbox;

const SINFO: [&str; 2] = [
    "v1|gpu*|1:00:00|idle|gpu:v100:2|gpu:v100:0|0/8/0/8|64000|0|(null)|none",
    "t1|gpu*|1:00:00|idle|gpu:t4:2|gpu:t4:0|0/8/0/8|64000|0|(null)|none",
];

/// The output of `scontrol` without problems; the time of the configuration is left out.
const SCONTROL: &str = r#"case "$*" in
ping) echo "Slurmctld(primary) at north is UP";;
"show config") cat <<'EOF'
AccountingStorageTRES   = cpu,mem,gres/gpu,gres/gpu:v100
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = north
KillWait                = 30 sec
SchedulerType           = sched/backfill
SelectType              = select/cons_tres
SLURM_VERSION           = 23.11.4
EOF
;;
"-o show partition") echo "PartitionName=gpu Default=YES MaxNodes=4 MaxTime=01:00:00 State=UP";;
*) exit 9;;
esac"#;

fn sandbox() -> Sandbox {
    let sinfo = "case $1 in --version) echo slurm 23.11.4;; *) cat \"$root/sinfo.out\";; esac";
    Sandbox::with_slurm()
        .printing("sinfo", &SINFO)
        .program("sinfo", sinfo)
        .program("scontrol", SCONTROL)
        .program("sacct", ":")
}

/// Returns the status and finding of a check in the JSON output.
fn found(sandbox: &Sandbox, arguments: &str, code: i32, name: &str) -> Vec<(String, String)> {
    let value = sandbox.run(&format!("doctor --format json {arguments}")).exits(code).json();
    assert_eq!(value["schema"], "hsched.doctor/1");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let checks = value["checks"].as_array().expect("checks").iter().filter(|check| check["check"] == name);
    checks.map(|check| (text(&check["status"]), text(&check["found"]))).collect()
}

fn one(status: &str, found: &str) -> Vec<(String, String)> {
    vec![(status.to_owned(), found.to_owned())]
}

#[test]
fn a_healthy_site_is_asked_little_and_nothing_is_changed() {
    let sandbox = sandbox();
    let text = sandbox.run("doctor").succeeds();
    assert!(text.contains("\n0 problems, "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(
        (sandbox.calls("sinfo").len(), sandbox.calls("scontrol").len(), sandbox.calls("sacct").len()),
        (2, 3, 1)
    );
    assert_eq!(
        (sandbox.calls("squeue").len(), sandbox.calls("sbatch")),
        (1, vec![vec!["--version".to_owned()]])
    );
    assert!(!sandbox.state("").exists());
    let check = |name: &str, text: &str| assert_eq!(found(&sandbox, "", 0, name), one("ok", text));
    check("gpus", "2 t4, 2 v100");
    check("partitions", "gpu (default) up to 1 h 00 min 4 nodes");
    check("accounting", "on, with GPUs");
    check("controller", "north runs Slurm 23.11.4");
}

#[test]
fn what_will_fail_is_a_problem() {
    let limited = SCONTROL.replace("sched/backfill", "sched/builtin");
    let sandbox = sandbox().program("scontrol", &limited).file("state", "a file");
    assert_eq!(
        found(&sandbox, "", 1, "mixed jobs"),
        one("problem", "SchedulerType=sched/builtin never starts heterogeneous jobs")
    );
    assert_eq!(found(&sandbox, "--set het_steps=false", 0, "mixed jobs")[0].0, "ok");
    let partitions = found(&sandbox, "--set partition=gpu,long", 1, "partitions");
    assert_eq!(partitions[1].1, "the setting partition is long, which does not exist or is hidden from you");
    let state = found(&sandbox, "--set state_dir=state", 1, "state");
    assert_eq!(state[0].0, "problem", "{state:?}");
}

#[test]
fn wrong_settings_are_a_finding_and_the_right_ones_hold() {
    let sandbox = sandbox().file("hsched.toml", "het_steps = false\ngrace = \"soon\"\naccount = 7\n");
    let settings = found(&sandbox, "--set partition=long", 1, "settings");
    assert_eq!(settings.len(), 2, "{settings:?}");
    assert!(settings.iter().all(|(status, _)| status == "problem"), "{settings:?}");
    assert!(settings[0].1.contains("hsched.toml:2: grace: "), "{settings:?}");
    let mixed = found(&sandbox, "", 1, "mixed jobs");
    assert_eq!(mixed, one("ok", "het_steps = false: one component per job"));
}

#[test]
fn variables_that_are_kept_from_slurm_are_named() {
    let sandbox = sandbox().variable("SQUEUE_FORMAT", "%i").variable("SLURM_CLUSTERS", "north");
    let expected = "hsched hides SQUEUE_FORMAT from Slurm's commands";
    assert_eq!(found(&sandbox, "", 0, "environment"), one("note", expected));
}

#[test]
fn without_slurm_the_rest_is_still_looked_at() {
    let sandbox = Sandbox::new();
    assert_eq!(found(&sandbox, "", 69, "tools")[0].0, "problem");
    assert_eq!(found(&sandbox, "", 69, "settings").len(), 1);
    let down = self::sandbox().program("scontrol", "echo 'Slurmctld(primary) at north is DOWN'");
    assert_eq!(
        found(&down, "", 69, "controller"),
        one("problem", "no controller is up, according to scontrol ping")
    );
    let broken = self::sandbox().program("scontrol", "echo nonsense");
    assert_eq!(found(&broken, "", 1, "selection")[0].0, "note");
}

#[test]
fn accounts_that_slurm_would_refuse_are_known_before() {
    let config = "AccountingStorageType = accounting_storage/slurmdbd";
    let partitions =
        "PartitionName=gpu AllowAccounts=rrg-lab AllowQos=ALL Default=YES MaxTime=1:00:00 State=UP";
    let sandbox = Sandbox::with_slurm()
        .program(
            "scontrol",
            &format!(
                "case $2 in partition) ;; config) echo '{config}';; esac; [ $1 != -o ] || echo '{partitions}'"
            ),
        )
        .program("sacctmgr", "printf 'c|def-me||normal||||\\nc|rrg-lab||normal||||\\n'")
        .program("sacct", ":");
    assert_eq!(
        found(&sandbox, "--set account=rrg-lab", 1, "accounts"),
        one("ok", "you can use def-me, rrg-lab")
    );
    let refused = "partition gpu does not accept account def-me; it accepts rrg-lab";
    assert_eq!(
        found(&sandbox, "--set account=def-me --set partition=gpu", 1, "accounts"),
        one("problem", refused)
    );
    let added = sandbox.run("add jobs.yaml --account def-me --partition gpu --qos fast").exits(0).stderr;
    assert!(added.contains(&format!("note: vgg19: {refused}\n")), "{added}");
    assert!(added.contains("note: vgg19: you cannot use QOS \"fast\"; yours are normal\n"), "{added}");
    let added = Sandbox::with_slurm().run("add jobs.yaml --account def-me").exits(0).stderr;
    assert!(!added.contains("account"), "{added}");
}

#[test]
fn a_bundle_has_what_slurm_prints_and_names_nobody() {
    let queue = "7|7|N/A|N/A|RUNNING|None|gpu|2026-11-21T06:13:16|2026-11-21T06:13:17|2026-11-21T06:23:17|9:57|1|2|0|0|v1|\
                 cpu=2,mem=100M,node=1|gres:gpu:v100:1|N/A|secret|thesis";
    let sandbox = sandbox().printing("squeue", &[queue]).program("sshare", "echo denied >&2; exit 1");
    let listed = sandbox.run("doctor --bundle out.tar.gz --dry-run").succeeds();
    assert!(listed.contains("sinfo.txt") && listed.contains("squeue --me --all"), "{listed}");
    assert!(!sandbox.work("out.tar.gz").exists() && sandbox.calls("sshare").is_empty());

    let made = sandbox.run("doctor --bundle out.tar.gz --format json").exits(0).json();
    assert_eq!((made["schema"].as_str(), made["slurm"].as_str()), (Some("hsched.bundle/1"), Some("23.11.4")));
    let calls = made["calls"].as_array().expect("calls");
    let of = |name: &str| calls.iter().find(|call| call["name"] == name).expect("a call");
    assert_eq!(of("shares")["error"], "sshare: exit status: 1: denied");
    assert!(of("job-7")["command"].as_str().is_some_and(|line| line == "scontrol -o show job 7"));
    assert!(!made.to_string().contains("secret") && !made.to_string().contains("thesis"), "{made}");

    let read = sandbox.run("inventory --from out.tar.gz --format json").json();
    assert_eq!(
        (&read["gpus"]["v100"]["total"], &read["gpus"]["t4"]["total"]),
        (&2.into(), &2.into()),
        "{read}"
    );
    let broken = sandbox.file("broken.tar.gz", [0x1f, 0x8b, 0, 1, 2]);
    let error = broken.run("inventory --from broken.tar.gz").fails(78);
    assert!(error.contains("broken.tar.gz is compressed, but not a complete bundle"), "{error}");
    broken.run("doctor --dry-run").fails(2);
}
