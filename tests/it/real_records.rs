//! Ends of jobs as a real Slurm reports them, with and without accounting; replies to requests about jobs
//! that have ended or have another name; predicted starts; a node without power.

use std::fs;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};

use hsched_slurm::{
    JobId, JobRecord, QueuedJob, Reply, Runner, SlurmState, System, TestOnlyAnswer, sacct, sbatch, scancel,
    scontrol_job, site, squeue, time,
};

use crate::real_cluster::{Cluster, start, start_with_accounting};
use crate::real_user::{TestUser, wait_for};

const NODES: &str = "partition gpu default default_time=30\n\
    e1 cpus=4 memory=8000 gpus=v100:2\ne2 cpus=4 memory=8000 gpus=t4:2\n";

/// One rank on each of two nodes, which records its process id.
const RANKS: &str = "#SBATCH -w e1\n#SBATCH hetjob\n#SBATCH -w e2\n\
    srun --het-group=0,1 bash -c 'echo $$ >part.$SLURM_PROCID; mv part.$SLURM_PROCID $SLURM_JOB_NAME.$SLURM_PROCID; \
    exec sleep 600' & ranks=$!\ntrap 'kill $ranks; exit 85' USR1\nwait\n";

struct Bench<'a> {
    user: TestUser<'a>,
    system: System,
    /// Function that returns Slurm's records of the components of a job.
    recall: fn(&System, JobId) -> Vec<JobRecord>,
}

impl Bench<'_> {
    fn submit(&self, name: &str, options: &[&str], lines: &str) -> JobId {
        self.user.write(name, &format!("#!/bin/bash\n{lines}"));
        let script = self.user.folder.join(name).display().to_string();
        let folder = format!("--chdir={}", self.user.folder.display());
        let fixed = [folder.as_str(), "--output=/dev/null", "--no-requeue", "--job-name", name];
        let options: Vec<String> = fixed.iter().chain(options).map(|&option| option.to_owned()).collect();
        sbatch::submit(&self.system, &sbatch::command(&script, &options)).expect("a job").id
    }

    fn forecast(&self, options: &[&str]) -> TestOnlyAnswer {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        sbatch::test(&self.system, &sbatch::test_command("#!/bin/sh\n", &options)).expect("an answer")
    }

    fn stop(&self, name: &str, id: JobId) -> Reply {
        scancel::send(&self.system, &scancel::stop(name, id)).expect("a reply")
    }

    fn cancel(&self, name: &str, id: JobId) -> Reply {
        scancel::send(&self.system, &scancel::cancel(name, id)).expect("a reply")
    }

    /// Waits until the ranks of [`RANKS`] are up; returns their process numbers.
    fn ranks(&self, name: &str) -> [String; 2] {
        ["0", "1"].map(|rank| {
            let path = format!("{name}.{rank}");
            wait_for(&path, || Some(self.user.read(&path).trim().to_owned()).filter(|pid| !pid.is_empty()))
        })
    }

    /// Checks that no component of a job has ended or is about to.
    fn check_active(&self, id: JobId) {
        let text = self.system.run(&squeue::command()).expect("squeue").stdout;
        let (queued, _) = squeue::parse(&text).expect("jobs");
        let is_part = |job: &&QueuedJob| job.id == id || job.het.is_some_and(|(first, _)| first == id);
        let states: Vec<&SlurmState> = queued.iter().filter(is_part).map(|job| &job.state).collect();
        assert_eq!(states, [&SlurmState::Running; 2]);
    }

    /// Waits until the records of a job's components are settled, and checks them.
    fn check_end(&self, id: JobId, components: usize, state: &SlurmState, code: Option<u8>) {
        let records = wait_for(&format!("records of job {id}"), || {
            let records = (self.recall)(&self.system, id);
            (records.len() == components && records.iter().all(|record| record.settled)).then_some(records)
        });
        let text = self.system.run(&squeue::command()).expect("squeue").stdout;
        let (queued, _) = squeue::parse(&text).expect("jobs");
        for record in &records {
            assert_eq!(record.state, *state, "{record:?}");
            assert!(code.is_none_or(|code| record.exit.is_some_and(|exit| exit.code == code)), "{record:?}");
            let job = queued.iter().find(|job| job.id == record.id).expect("still in the queue");
            assert_eq!((&record.submit_time, record.het), (&job.submit_time, job.het), "{record:?}");
            assert_eq!(record.nodes, job.nodes, "{record:?}");
            let seconds = [&record.submit_time, &record.start_time, &record.end_time]
                .map(|date| date.as_deref().and_then(time::unix).expect("a date"));
            assert!(seconds.is_sorted(), "{record:?}");
        }
        assert_eq!(JobRecord::latest(&records, id).map(|record| record.id), Some(id));
    }
}

/// Lets jobs end by the loss of a node, by themselves, by a stop and by a cancellation; checks the records of
/// their ends, the replies to requests, and predicted starts.
fn check(cluster: &Cluster, recall: fn(&System, JobId) -> Vec<JobRecord>) {
    let variables = [("PATH".into(), cluster.path()), ("SLURM_CONF".into(), cluster.configuration().into())];
    let system = System::new(variables, Duration::from_secs(30));
    let bench = Bench { user: TestUser::new(cluster, "records", ""), system, recall };

    let lost = bench.submit("lost", &[], RANKS);
    let [near, far] = bench.ranks("lost");
    cluster.node("kill", "e2");
    assert!(!is_alive(&far) && is_alive(&near), "the ranks on e2 alone are gone");
    bench.check_end(lost, 2, &SlurmState::NodeFail, None);
    cluster.node("up", "e2");

    let completed = bench.submit("completed", &["-w", "e2"], "true\n");
    let failed = bench.submit("failed", &[], "exit 9\n");
    let later = bench.submit("later", &["--begin=now+1hour"], "true\n");
    assert_eq!((bench.stop("later", later), bench.cancel("later", later)), (Reply::Done, Reply::Done));
    let stopped = bench.submit("stopped", &[], RANKS);
    bench.ranks("stopped");
    assert_eq!(bench.stop("stopped", stopped), Reply::Done);
    bench.check_end(stopped, 2, &SlurmState::Failed, Some(85));
    let cancelled = bench.submit("cancelled", &[], RANKS);
    bench.ranks("cancelled");
    // The other name stands for another user's job that has received the id of an old job of ours.
    assert_eq!(
        (bench.stop("other", cancelled), bench.cancel("other", cancelled)),
        (Reply::Done, Reply::Done)
    );
    bench.check_active(cancelled);
    assert_eq!(bench.cancel("cancelled", cancelled), Reply::Done);
    bench.check_end(cancelled, 2, &SlurmState::Cancelled, None);
    bench.check_end(completed, 1, &SlurmState::Completed, Some(0));
    bench.check_end(failed, 1, &SlurmState::Failed, Some(9));
    check_unheard(&bench, completed);
    check_forecast(&bench, cluster);
}

/// Checks the replies to requests about jobs that have ended or never existed.
fn check_unheard(bench: &Bench<'_>, ended: JobId) {
    let never = JobId(999_999);
    for (name, id) in [("completed", ended), ("never", never)] {
        assert_eq!((bench.stop(name, id), bench.cancel(name, id)), (Reply::Ended, Reply::Ended), "{name}");
    }
    assert_eq!((bench.recall)(&bench.system, never), []);
}

/// Checks the predicted start of a job that needs the GPUs of another one: at the time limit of that job or,
/// once its node was lost and is back, earlier. An impossible request is refused.
fn check_forecast(bench: &Bench<'_>, cluster: &Cluster) {
    let wanted = ["-w", "e1", "--gres=gpu:v100:2"];
    let holder = bench.submit("holder", &[&wanted[..], &["-t", "17"]].concat(), "sleep 600\n");
    bench.user.running(&holder.to_string());
    let end = bench.user.field(&holder.to_string(), "EndTime").remove(0);
    assert_eq!(bench.forecast(&wanted), TestOnlyAnswer::Starts(end.clone()));
    let TestOnlyAnswer::Refused(why) = bench.forecast(&["--gres=gpu:v100:9"]) else { panic!("impossible") };
    assert_eq!(why, "Requested node configuration is not available");

    cluster.node("down", "e1");
    bench.check_end(holder, 1, &SlurmState::NodeFail, None);
    cluster.node("up", "e1");
    let TestOnlyAnswer::Starts(start) = bench.forecast(&wanted) else { panic!("possible") };
    assert!(start < end, "{start}, {end}");
}

/// Returns whether a process is alive; a zombie is not, because some init processes reap late.
fn is_alive(process: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(process).join("status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z') && !line.contains('X'))
}

fn nodes() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nodes");
    fs::write(&path, NODES).expect("a file");
    (folder, path)
}

fn has_accounting(cluster: &Cluster) -> bool {
    let text = fs::read_to_string(cluster.configuration()).expect("slurm.conf");
    site::Config::parse(&text).has_accounting()
}

#[test]
fn ends_are_told_without_accounting() {
    let (_folder, nodes) = nodes();
    let Some(cluster) = start(&nodes, "3/3/1") else { return };
    assert!(!has_accounting(&cluster));
    check(&cluster, |system, id| match system.run(&scontrol_job::command(id)) {
        Ok(output) => {
            let (records, notes) = scontrol_job::parse(&output.stdout).expect("records");
            assert_eq!(notes, [""; 0]);
            records
        }
        Err(error) => {
            assert!(scontrol_job::is_unknown(&error), "{error}");
            Vec::new()
        }
    });
}

#[test]
fn ends_are_told_with_accounting() {
    let (_folder, nodes) = nodes();
    let Some(cluster) = start_with_accounting(&nodes, "3/3/1") else { return };
    assert!(has_accounting(&cluster));
    check(&cluster, |system, id| {
        let since = DateTime::<Utc>::UNIX_EPOCH;
        let output = system.run(&sacct::command(&[id], since)).expect("sacct");
        let (records, notes) = sacct::parse(&output.stdout).expect("records");
        assert_eq!(notes, [""; 0]);
        records
    });
}
