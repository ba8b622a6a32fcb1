//! The check of the queue's visibility: whether starts can be estimated.

use super::check::Check;
use hsched_model::{Cluster, Time};
use hsched_queue::Snapshot;
use hsched_slurm::queue::{QueueLook, Texts, snapshot};

/// Returns the check of the queue. `squeue` and `config` are output of Slurm; the jobs of `user` are the
/// user's own.
pub(super) fn check(squeue: &str, config: &str, cluster: &Cluster, user: &str) -> Check {
    let texts = Texts {
        squeue,
        cluster,
        config: Some(config),
        partitions: None,
        reservations: None,
        shares: None,
        default_account: None,
        limits: None,
        history: None,
        later: None,
        earlier: None,
    };
    match snapshot(texts, QueueLook { at: Time::default(), user }) {
        Ok(seen) => of_snapshot(&seen),
        Err(error) => Check::note("queue", error.to_string()).advise(
            "hsched cannot estimate start times \
            here",
        ),
    }
}

fn of_snapshot(seen: &Snapshot) -> Check {
    let others = || seen.jobs.iter().filter(|job| !job.ours);
    let running = others().filter(|job| job.running.is_some()).count();
    let waiting = others().count() - running;
    if seen.others_hidden {
        return Check::note("queue", seen.notes.join("; ")).advise("hsched cannot estimate start times here");
    }
    Check::ok("queue", format!("other users: {running} running, {waiting} waiting"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::check::Level;
    use hsched_slurm::sinfo;

    #[test]
    fn what_is_hidden_is_a_note_with_its_reason() {
        let line = "v1|gpu*|1:00|mixed|gpu:v100:4|gpu:v100:1|1/7/0/8|64000|0||none\u{1e}\n";
        let (cluster, _) = sinfo::parse(&line.replace('|', "\u{1f}")).expect("nodes");
        let job = "7|RUNNING|man|bio|normal|gpu|3|2026-11-22T10:00:00|2026-11-22T10:00:00|1:00:00|1|1|1|cpu=1|gres:gpu:1|N/A|N/A|N/A|v1|(null)|(null)|OK|None\u{1e}\n"
            .replace('|', "\u{1f}");
        let seen = check(&job, "", &cluster, "me");
        assert_eq!((seen.level, seen.found.as_str()), (Level::Ok, "other users: 1 running, 0 waiting"));
        let hidden = check("", "PrivateData = jobs\n", &cluster, "me");
        assert_eq!(
            (hidden.level, hidden.found.as_str()),
            (Level::Note, "other users' jobs are hidden (PrivateData=jobs)")
        );
        assert_eq!(check("odd\u{1e}odd\u{1e}", "", &cluster, "me").level, Level::Note);
    }
}
