//! Output of each version of Slurm, read by the parsers and compared with the output of other commands at the
//! same time.
//!
//! `tests/record-slurm` creates the recordings; `expected.json` comes from `scontrol show`, `sinfo -o`,
//! `sacctmgr` and the jobs themselves.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hsched_model::{Cluster, JobId, NodeName, Time};
use hsched_slurm::queue::{self, QueueLook, Texts};
use hsched_slurm::site::{self, Config};
use hsched_slurm::{QueuedJob, SlurmState, allocation, permission, sacct, scontrol_job, sinfo, squeue};
use serde_json::Value;

/// A recording of one version.
struct Recording {
    folder: PathBuf,
    expected: Value,
}

impl Recording {
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns the texts with this name prefix, with the number between it and `.txt`.
    fn numbered(&self, begin: &str) -> Vec<(u64, String)> {
        let names =
            fs::read_dir(&self.folder).expect("a folder").map(|result| result.expect("a file").file_name());
        let names: BTreeSet<String> = names.filter_map(|name| name.into_string().ok()).collect();
        let number = |name: &String| name.strip_prefix(begin)?.strip_suffix(".txt")?.parse().ok();
        names.iter().filter_map(|name| Some((number(name)?, self.text(name)))).collect()
    }

    fn cluster(&self) -> Cluster {
        let (cluster, notes) = sinfo::parse(&self.text("sinfo.txt")).expect("readable");
        assert_eq!(notes, [""; 0], "{}", self.folder.display());
        cluster
    }

    /// Returns the expected jobs with their names.
    fn jobs(&self) -> Vec<(&str, &Value)> {
        let jobs = self.expected["jobs"].as_object().expect("jobs");
        jobs.iter().map(|(name, job)| (name.as_str(), job)).collect()
    }

    fn job(&self, id: u64) -> Option<(&str, &Value)> {
        self.jobs().into_iter().find(|(_, job)| job["id"] == id)
    }
}

/// Runs a check on the recording of each version.
fn each(check: impl Fn(&Recording)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/recorded");
    let mut count = 0;
    for entry in fs::read_dir(root).expect("recordings") {
        let folder = entry.expect("a folder").path();
        let text = fs::read_to_string(folder.join("expected.json")).expect("expected.json");
        let expected = serde_json::from_str(&text).expect("JSON");
        check(&Recording { folder, expected });
        count += 1;
    }
    assert!(count > 0, "nothing is recorded");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

#[test]
fn nodes_are_as_scontrol_shows_them() {
    each(|recording| {
        let (cluster, display) = (recording.cluster(), recording.folder.display());
        let nodes = recording.expected["nodes"].as_object().expect("nodes");
        assert_eq!(cluster.nodes.len(), nodes.len(), "{display}");
        for (name, expected) in nodes {
            let node = cluster.node(&NodeName::new(name).expect("a name")).expect("the node");
            for stock in &node.gpus {
                assert_eq!(expected["gpus"][stock.gpu_type.as_str()], stock.total, "{display}: {name}");
            }
            assert_eq!(
                expected["gpus"].as_object().expect("GPUs").len(),
                node.gpus.len(),
                "{display}: {name}"
            );
            let used: u32 = node.gpus.iter().map(|stock| stock.used).sum();
            assert_eq!(expected["gpus_used"], used, "{display}: {name}");
            let (cpus, memory) = (node.cpus.expect("CPUs"), node.memory.expect("memory"));
            assert_eq!(
                (&expected["cpus"], &expected["cpus_used"]),
                (&cpus.total.into(), &cpus.used.into()),
                "{display}: {name}"
            );
            assert_eq!(expected["memory_mib"], memory.total >> 20, "{display}: {name}");
            let partitions: Vec<&str> = node.partitions.iter().map(String::as_str).collect();
            assert_eq!(expected["partitions"], Value::from(partitions), "{display}: {name}");
            assert_eq!(text(&expected["state"]), node.state.to_string().to_lowercase(), "{display}: {name}");
        }
    });
}

fn check_queued(recording: &Recording, job: &QueuedJob, (name, expected): (&str, &Value)) {
    let context = format!("{}: {name}", recording.folder.display());
    assert_eq!(job.name, name, "{context}");
    assert_eq!(job.state, SlurmState::parse(text(&expected["state"])), "{context}");
    assert_eq!(job.nodes, text(&expected["nodes"]), "{context}");
    assert_eq!(job.submit_time.as_deref(), expected["submit"].as_str(), "{context}");
    assert_eq!(job.partition, text(&expected["partition"]), "{context}");
    assert_eq!(hsched_slurm::Tres::parse(&job.tres).gres.gpu_total(), expected["gpus"], "{context}");
    if let Some(exit) = job.exit {
        assert_eq!(format!("{}:{}", exit.code, exit.signal), text(&expected["exit"]), "{context}");
    }
}

#[test]
fn the_users_own_jobs_are_as_scontrol_shows_them() {
    each(|recording| {
        let (jobs, notes) = squeue::parse(&recording.text("squeue.txt")).expect("readable");
        assert_eq!(notes, [""; 0]);
        for (name, expected) in recording.jobs() {
            let job = jobs
                .iter()
                .find(|job| expected["id"] == job.id.0)
                .unwrap_or_else(|| panic!("{name} is missing"));
            check_queued(recording, job, (name, expected));
        }
        let named = |name: &str| jobs.iter().find(|job| job.name == name).expect("a job");
        assert_eq!(
            named("typed").tag().map(|tag| (tag.run, tag.job)),
            Some(("r1".to_owned(), "typed".to_owned()))
        );
        assert_eq!(named("pending").comment.as_deref(), Some("a Comment=b | StdErr=c"));
        assert!(named("held").is_stuck() && !named("pending").is_stuck());
        // The resources held by running jobs equal those in use on their nodes.
        let (held, unclear) = hsched_slurm::holdings(&jobs, &recording.cluster());
        assert_eq!(unclear, [""; 0]);
        for (node, held) in held {
            let count: u32 = held.gpus.values().sum();
            assert_eq!(recording.expected["nodes"][node.as_str()]["gpus_used"], count, "{node}");
        }
    });
}

#[test]
fn the_queue_of_everybody_is_as_scontrol_shows_it() {
    each(|recording| {
        let (squeue, cluster) = (recording.text("squeue-all.txt"), recording.cluster());
        let [config, partitions, reservations] =
            ["config", "partitions", "reservations"].map(|name| recording.text(&format!("{name}.txt")));
        let (shares, history) = (recording.text("shares.txt"), recording.text("history.txt"));
        let texts = Texts {
            squeue: &squeue,
            cluster: &cluster,
            config: Some(&config),
            partitions: Some(&partitions),
            reservations: Some(&reservations),
            shares: Some((Time(0.0), &shares)),
            default_account: None,
            limits: None,
            history: Some((Time(0.0), &history)),
            later: None,
            earlier: None,
        };
        let snapshot = queue::snapshot(texts, QueueLook { at: Time(2e9), user: "root" }).expect("readable");
        assert!(
            snapshot.notes.iter().all(|note| !note.contains("could not be read")),
            "{:?}",
            snapshot.notes
        );
        for (name, expected) in recording.jobs() {
            let id = expected["id"].to_string();
            let found = snapshot.jobs.iter().find(|job| job.id == id);
            let job = match text(&expected["state"]) {
                "RUNNING" | "PENDING" => found.unwrap_or_else(|| panic!("{name} is missing")),
                _ => {
                    assert!(found.is_none(), "{name} has ended");
                    continue;
                }
            };
            let asked: u32 = job.asks.gpus.iter().map(|gpus| gpus.count).sum::<u32>() * job.asks.nodes;
            assert_eq!(expected["gpus"], asked, "{name}");
            let holds = job.running.iter().flat_map(|running| &running.holds).flat_map(|held| &held.gpus);
            let held: u32 = holds.map(|gpus| gpus.count).sum();
            let is_running = text(&expected["state"]) == "RUNNING";
            assert_eq!(held, if is_running { asked } else { 0 }, "{name}");
            assert_eq!(job.waits_for_other, name == "held", "{name}");
            assert_eq!(job.asks.exclusive, name == "two-nodes", "{name}");
        }
        let array =
            snapshot.jobs.iter().find(|job| job.array.is_some() && job.running.is_none()).expect("an array");
        assert_eq!((array.tasks, array.at_once), (4, Some(2)));
        let reserved: Vec<&str> =
            snapshot.reservations.iter().map(|reservation| reservation.name.as_str()).collect();
        assert_eq!(recording.expected["reservations"], Value::from(reserved));
        let ended = snapshot.history.expect("a past");
        assert!(ended.len() >= 2, "{ended:?}");
    });
}

#[test]
fn single_jobs_are_as_squeue_and_the_jobs_themselves_say() {
    each(|recording| {
        let display = recording.folder.display();
        let mut seen = BTreeSet::new();
        for (id, text_of_job) in recording.numbered("job-") {
            let (jobs, notes) = scontrol_job::parse(&text_of_job).expect("readable");
            assert_eq!((jobs.len(), notes.len()), (1, 0), "{display}: {id}");
            let (name, expected) = recording.job(id).expect("an expected job");
            let job = &jobs[0];
            assert_eq!(
                (job.name.as_str(), &job.state),
                (name, &SlurmState::parse(text(&expected["state"]))),
                "{display}: {id}"
            );
            assert_eq!(
                (job.nodes.as_str(), job.submit_time.as_deref()),
                (text(&expected["nodes"]), expected["submit"].as_str()),
                "{display}: {name}"
            );
            let comment = match name {
                "pending" => Some("a Comment=b | StdErr=c"),
                "typed" => Some(r#"{"hsched":1,"run":"r1","job":"typed"}"#),
                _ => None,
            };
            assert_eq!(job.comment.as_deref(), comment, "{display}: {name}");
            seen.insert(text(&expected["state"]));
        }
        assert!(
            ["RUNNING", "PENDING", "FAILED"].iter().all(|state| seen.contains(state)),
            "{display}: {seen:?}"
        );
        for (id, printed) in recording.numbered("allocation-") {
            let (name, expected) = recording.job(id).expect("an expected job");
            let Some(devices) = expected["cuda_visible_devices"].as_str() else { continue };
            let nodes = allocation::parse(&printed, JobId(u32::try_from(id).expect("an id"))).nodes;
            let given: usize = nodes.iter().map(|node| node.devices.len()).sum();
            assert_eq!(expected["gpus"], given, "{display}: {name}");
            // The job's shell runs on its first node.
            assert_eq!(nodes[0].devices.len(), devices.split(',').count(), "{display}: {name}");
        }
    });
}

#[test]
fn the_accounting_knows_the_same_ends() {
    each(|recording| {
        let (records, notes) = sacct::parse(&recording.text("sacct.txt")).expect("readable");
        assert_eq!(notes, [""; 0]);
        let mut ended = 0;
        for record in &records {
            let Some((name, expected)) = recording.job(u64::from(record.id.0)) else { continue };
            assert_eq!(
                (record.name.as_str(), &record.state),
                (name, &SlurmState::parse(text(&expected["state"]))),
                "{name}"
            );
            if let (true, Some(exit)) = (record.settled, record.exit) {
                assert_eq!(format!("{}:{}", exit.code, exit.signal), text(&expected["exit"]), "{name}");
                ended += 1;
            }
        }
        assert!(ended >= 2, "{records:?}");
    });
}

#[test]
fn the_site_is_as_sinfo_and_the_configuration_file_say() {
    each(|recording| {
        let expected = &recording.expected;
        let display = recording.folder.display();
        let version = site::version(&recording.text("version.txt"));
        assert_eq!(version.as_deref(), expected["version"].as_str(), "{display}");
        assert_eq!(site::is_up(&recording.text("ping.txt")), Some(true), "{display}");
        let config = Config::parse(&recording.text("config.txt"));
        for (key, value) in expected["config"].as_object().expect("keys") {
            assert_eq!(config.get(key), value.as_str(), "{display}: {key}");
        }
        assert!(config.has_accounting() && config.time.is_some(), "{display}");
        assert_eq!(config.get("SLURM_VERSION"), version.as_deref(), "{display}");
        let partitions = site::partitions(&recording.text("partitions.txt"));
        assert_eq!(
            partitions.len(),
            expected["partitions"].as_object().expect("partitions").len(),
            "{display}"
        );
        for partition in partitions {
            let known = &expected["partitions"][&partition.name];
            let limit = match text(&known["limit"]) {
                "infinite" => None,
                "1:00:00" => Some(3600.0),
                other => panic!("{display}: a limit of {other}"),
            };
            assert_eq!(
                (partition.max_time.map(|time| time.0), partition.state.as_str()),
                (limit, "UP"),
                "{display}"
            );
            assert_eq!(known["state"], "up", "{display}");
        }
        let accounts =
            permission::Associations::parse(&recording.text("associations.txt"), config.get("ClusterName"));
        let accounts: BTreeSet<&str> = accounts.accounts().into_iter().collect();
        assert_eq!(
            expected["associations"],
            Value::from(accounts.into_iter().collect::<Vec<_>>()),
            "{display}"
        );
    });
}
