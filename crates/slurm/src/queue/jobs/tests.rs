//! Jobs of a queue in literal output of squeue.

use super::*;
use crate::sinfo;
use hsched_queue::Asks;

/// Nodes v1 to v3 with four V100 GPUs each, and m with GPUs of two types.
fn cluster() -> Cluster {
    let node = |name: &str, gres: &str| format!("{name}|gpu*|1:00|mixed|{gres}|(null)|0/8/0/8|64000|0||");
    sinfo::tests::cluster(&[&node("v[1-3]", "gpu:v100:4"), &node("m", "gpu:v100:2,gpu:t4:2")])
}

fn read(text: &str) -> (Vec<QueueJob>, Vec<String>) {
    let look = QueueLook { at: Time(time::unix("2026-11-22T12:00:00").expect("a date")), user: "me" };
    parse(&text.replace('|', "\u{1f}").replace('\n', "\u{1e}\n"), &cluster(), look).expect("readable")
}

fn one(text: &str) -> QueueJob {
    let (mut jobs, notes) = read(text);
    assert_eq!((jobs.len(), notes.len()), (1, 0), "{text} {notes:?}");
    jobs.remove(0)
}

/// The request of a pending job with these columns: TRES, per node, per job, per task.
fn waiting(tres: &str, per_node: &str, per_job: &str, per_task: &str) -> Asks {
    let line = format!(
        "7|PENDING|man|bio|normal|gpu|11|2026-11-22T10:00:00|N/A|1:00:00|1|3|3|{tres}|{per_node}|{per_job}|{per_task}|N/A||(null)|(null)|OK|Priority\n"
    );
    one(&line).asks
}

/// The GPUs on each node as `type:count`.
fn gpus(asks: &Asks) -> String {
    let shown =
        |ask: &GpuAsk| format!("{}:{}", ask.gpu_type.as_ref().map_or("any", GpuType::as_str), ask.count);
    asks.gpus.iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[test]
fn everybodys_jobs_are_one_question() {
    let shown = command(None).to_string();
    assert!(shown.starts_with("squeue --all -h -O $'JobArrayID:\\u001f,State:"), "{shown}");
    assert!(!shown.contains("--me"));
}

#[test]
fn a_waiting_job_has_its_place_and_what_it_asks_for() {
    let job = one(
        "52|PENDING|lp|bio|normal|gpu,short|115945|2026-11-22T11:50:02|2026-11-23T08:03:22|3:00:00|1|32|1|cpu=32,mem=112.50G,node=1,billing=32,gres/gpu=4,gres/gpu:v100=4|gres:gpu:v100:4|N/A|N/A|N/A||v100|(null)|OK|Resources\n",
    );
    assert_eq!(
        (job.id.as_str(), job.user.as_deref(), job.account.as_deref()),
        ("52", Some("lp"), Some("bio"))
    );
    assert_eq!(
        (job.priority, job.limit_s, job.ours),
        (Some(115_945), Some(hsched_model::Seconds(10800.0)), false)
    );
    assert_eq!(job.partitions, ["gpu", "short"]);
    assert_eq!(
        (job.running.is_none(), job.reason.as_deref(), job.waits_for_other),
        (true, Some("Resources"), false)
    );
    assert_eq!((job.asks.nodes, job.asks.cpus, job.asks.memory_mib), (1, Some(32), Some(115_200)));
    assert_eq!((gpus(&job.asks).as_str(), job.asks.features.as_deref()), ("v100:4", Some("v100")));
}

#[test]
fn gpus_are_read_however_they_were_asked_for() {
    let check = |tres: &str, per_node: &str, per_job: &str, per_task: &str, expected: &str| {
        assert_eq!(
            gpus(&waiting(tres, per_node, per_job, per_task)),
            expected,
            "{tres} {per_node} {per_job} {per_task}"
        );
    };
    check("cpu=1,node=1", "gres:gpu:v100:2", "N/A", "N/A", "v100:2");
    check("cpu=1,node=1", "gres/gpu:v100:2", "N/A", "N/A", "v100:2");
    check("cpu=1,node=1,gres/gpu=2", "gres:gpu:2", "N/A", "N/A", "any:2");
    check("cpu=1,node=1", "gpu:v100:1,gpu:t4:2", "N/A", "N/A", "v100:1 t4:2");
    check("cpu=1,node=2", "N/A", "gres:gpu:t4:2", "N/A", "t4:1");
    check("cpu=1,node=2", "N/A", "gres:gpu:3", "N/A", "any:2");
    check("cpu=3,node=1", "N/A", "N/A", "gres:gpu:a100:1", "a100:3");
    check("cpu=1,node=1,gres/gpu=2,gres/gpu:t4=2", "N/A", "N/A", "N/A", "t4:2");
    check("cpu=8,node=1", "N/A", "N/A", "N/A", "");
}

#[test]
fn a_range_of_nodes_asks_for_its_fewest_and_exclusive_is_kept() {
    let line = |nodes: &str, shared: &str| {
        format!(
            "104|PENDING|me|dev|normal|gpu|1|2026-11-22T10:00:00|N/A|UNLIMITED|{nodes}|1|1|cpu=1,mem=100M,node=1|gres:gpu:2|N/A|N/A|N/A||a100|(null)|{shared}|None\n"
        )
    };
    let job = one(&line("2", "NO"));
    assert_eq!((job.asks.nodes, job.asks.exclusive, job.ours, job.limit_s), (1, true, true, None));
    assert!(!one(&line("1-2", "OK")).asks.exclusive);
    let without = line("1-2", "OK").replace("cpu=1,mem=100M,node=1", "");
    assert_eq!((one(&without).asks.nodes, one(&without).asks.cpus), (1, Some(1)));
}

#[test]
fn a_running_job_holds_gpus_of_its_nodes() {
    let job = one(
        "42_3|RUNNING|daemon|astro|normal|gpu|9|2026-11-22T09:00:00|2026-11-22T10:00:00|12:00:00|2|16|2|cpu=16,mem=57600M,node=2,gres/gpu=8,gres/gpu:v100=8|gres:gpu:v100:4|N/A|N/A|N/A|v[1-2]|(null)|(null)|OK|None\n",
    );
    assert_eq!((job.array.as_deref(), job.tasks, job.reason.as_deref()), (Some("42"), 1, None));
    let running = job.running.expect("it runs");
    let shown: Vec<String> = running
        .holds
        .iter()
        .map(|held| format!("{} {} {}", held.node, held.gpus[0].count, held.cpus.unwrap_or_default()))
        .collect();
    assert_eq!(shown, ["v1 4 8", "v2 4 8"]);
    let (jobs, notes) = read(
        "43|RUNNING|daemon|astro|normal|gpu|9|2026-11-22T09:00:00|2026-11-22T10:00:00|12:00:00|2|16|2|cpu=16,node=2|N/A|gres:gpu:v100:6|N/A|N/A|v[1-2]|(null)|(null)|OK|None\n",
    );
    let held: u32 =
        jobs[0].running.iter().flat_map(|running| &running.holds).map(|held| held.gpus[0].count).sum();
    assert_eq!(held, 6);
    assert!(notes[0].starts_with("v[1-2]: Slurm does not show the GPUs of some jobs"), "{notes:?}");
}

#[test]
fn a_job_that_is_being_cleaned_up_has_nothing_left() {
    let job = one(
        "8|COMPLETING|daemon|astro|normal|gpu|9|2026-11-22T09:00:00|2026-11-22T10:00:00|12:00:00|1|1|1|cpu=1,node=1|gres:gpu:v100:1|N/A|N/A|N/A|v1|(null)|(null)|OK|None\n",
    );
    assert_eq!(job.limit_s, Some(hsched_model::Seconds(7200.0)));
}

#[test]
fn arrays_hets_and_holds_are_told() {
    let line = |id: &str, priority: &str, reason: &str| {
        format!(
            "{id}|PENDING|me|dev|normal|gpu|{priority}|2026-11-22T10:00:00|N/A|1:00:00|1|1|1|cpu=1,node=1|gres:gpu:v100:1|N/A|N/A|N/A||(null)|(null)|OK|{reason}\n"
        )
    };
    let array = one(&line("56_[1-3%2]", "5", "Resources"));
    assert_eq!((array.array.as_deref(), array.tasks, array.at_once), (Some("56"), 3, Some(2)));
    assert_eq!(one(&line("108+1", "5", "Resources")).id, "108+1");
    let check = |priority: &str, reason: &str, expected: bool| {
        assert_eq!(one(&line("9", priority, reason)).waits_for_other, expected, "{reason}");
    };
    check("5", "Dependency", true);
    check("5", "BeginTime", true);
    check("5", "QOSMaxGRESPerUser", true);
    check("0", "None", true);
    check("5", "ReqNodeNotAvail, UnavailableNodes:v1", false);
}

#[test]
fn what_a_job_waits_for_is_read() {
    let line = |reason: &str, more: &str| {
        one(&format!(
            "9|PENDING|me|dev|normal|gpu|5|2026-11-22T10:00:00|2026-11-22T15:00:00|1:00:00|1|1|1|cpu=1,node=1|gres:gpu:v100:1|N/A|N/A|N/A||(null)|(null)|OK|{reason}|{more}\n"
        ))
    };
    let after = |text: &str| line("Dependency", &format!("{text}||0")).after.join(" ");
    assert_eq!(after("afterok:12(unfulfilled),afterany:13_*(unfulfilled)"), "12 13");
    assert_eq!(
        (after("afterany:13_2(unfulfilled)"), after("afterany:9+0(unfulfilled)")),
        ("13_2".to_owned(), "9".to_owned())
    );
    for other in [
        "singleton(unfulfilled)",
        "afterok:1(unfulfilled)?afterok:2(unfulfilled)",
        "afternotok:1(unfulfilled)",
        "after:1(unfulfilled)",
        "afterok:1(failed)",
        "(null)",
        "",
    ] {
        assert_eq!(after(other), "", "{other}");
    }
    let later = line("BeginTime", "(null)|v[1-2]|100");
    assert_eq!(later.begin, time::unix("2026-11-22T15:00:00").map(Time));
    assert_eq!((later.asks.nodelist.len(), later.nice, later.waits_for_other), (2, 100, true));
    // The expected start time says nothing about the earliest allowed start.
    assert_eq!(line("Priority", "(null)||0").begin, None);
}

#[test]
fn ended_jobs_are_left_out_and_bad_lines_are_told() {
    let (jobs, notes) = read("9|COMPLETED|me|dev|normal|gpu|5|a|b|1:00:00|1|1|1|cpu=1||||||||OK|None\nodd\n");
    assert_eq!(
        (jobs.len(), notes.as_slice()),
        (0, &["cannot parse a line of squeue output: \"odd\"".to_owned()][..])
    );
}

#[test]
fn nodes_of_ones_own_are_told_by_each_release() {
    let line = |release| command(release).to_string();
    assert!(line(None).contains("OverSubscribe") && line(Some((25, 11))).contains("OverSubscribe"));
    assert!(line(Some((26, 5))).contains(",Exclusive::\\u001f,Reason"), "{}", line(Some((26, 5))));
    let of = |cells: &[&str]| cells.iter().map(|cell| is_exclusive(cell)).collect::<Vec<_>>();
    assert_eq!(of(&["NO", "OK", "YES", "USER"]), [true, false, false, false]);
    assert_eq!(of(&["NO:", "NODE:", "USER:", "TOPO:"]), [false, true, false, false]);
}
