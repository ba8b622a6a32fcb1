//! The time limit of a submission: the predicted time with a margin, within the allowed limits.

use serde::{Deserialize, Serialize};

use crate::number::{to_f64, to_u64};
use crate::{Cluster, Job, JobDefaults, Seconds};

/// The default limit as a multiple of the predicted time: one run in ten takes 10 % longer than predicted,
/// and another 10 % is a reserve.
pub(super) const USUAL_MARGIN: f64 = 1.21;

/// Additional factor if the speed is only estimated: the slow run takes 50 % longer than predicted instead of
/// 10 %.
const ESTIMATED: f64 = 1.5 / 1.1;

/// Limits are rounded up to multiples of a quarter of an hour, unless the shortest or the longest limit
/// applies.
const QUARTER: f64 = 900.0;

/// Slurm's minimum limit is one minute.
const MINUTE: f64 = 60.0;

/// The inputs of a run's walltime.
struct WalltimeNeeds {
    /// Remaining training time, without restarts.
    predicted: Seconds,
    /// The limit as a multiple of the predicted time.
    margin: f64,
    /// Time to save at the end of a run.
    grace: Seconds,
    /// Time before training in each run, if there are several.
    restart: Seconds,
    /// The shortest limit, unless `longest` is shorter.
    least: Seconds,
    /// The longest limit, which may be infinite.
    longest: Seconds,
}

/// A run's walltime.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Walltime {
    pub minutes: u64,
    /// Minimum number of runs of this length in the training; 1 if no limit cuts it.
    pub pieces: u64,
    /// Training time of a run of this length before it is asked to save.
    pub trains: Seconds,
}

impl Walltime {
    /// The next piece of a cut training is queued when this fraction of the running piece's limit is left, or
    /// earlier if the running piece waited longer. If the next piece were queued at once and started soon, it
    /// would take over soon, and many short pieces take longer than a few complete ones.
    pub const AHEAD: f64 = 0.5;

    /// The effect of a limit on a job that is not known to save.
    pub const LOSES: &str =
        "the job starts over after the limit; if its program can resume, add the key checkpoint";

    /// Returns the walltime, rounded up to a quarter of an hour, but at least the shortest limit and at most
    /// the longest one.
    fn of(needs: &WalltimeNeeds) -> Self {
        let WalltimeNeeds { predicted, margin, grace, restart, least, longest } = *needs;
        let wanted = ((predicted.0 * margin + grace.0) / QUARTER).ceil().max(1.0) * QUARTER;
        let wanted = wanted.max(least.0);
        // Ten years stand for "no limit", because Slurm stores minutes in 32 bits.
        let limit = wanted.min(longest.0).clamp(MINUTE, 5_256_000.0 * MINUTE);
        let minutes = (limit / MINUTE).floor();
        let limit = Seconds(minutes * MINUTE);
        let trains = Seconds(limit.0 - Self::to_save(limit, grace).0);
        let pieces = in_pieces(predicted.0, trains.0, restart.0).clamp(1.0, 1e9);
        let (minutes, pieces) = (to_u64(minutes), to_u64(pieces));
        Self { minutes, pieces, trains }
    }

    /// Returns how long before its limit a run is asked to save: the grace, but never in the first half of
    /// the run.
    pub fn to_save(limit: Seconds, grace: Seconds) -> Seconds {
        Seconds(grace.0.min(limit.0 / 2.0))
    }

    /// Returns whether the walltime suits a training that can or cannot resume after a limit.
    pub fn suits(self, resumes: bool) -> bool {
        resumes || self.pieces == 1
    }

    /// Returns a message if a limit ends the training before it is done: a training that `resumes` is cut
    /// into runs (`at least 67 runs of 3 min`), and any other training is lost. If saving takes half of the
    /// limit, the message says so.
    pub fn cut(self, resumes: bool) -> Option<String> {
        if !self.suits(resumes) {
            return Some(format!("longer than its time limit of {}; {}", self.length(), Self::LOSES));
        }
        let half = self.trains.0 * 2.0 <= self.limit().0;
        let of = if half { ", half of each reserved for saving (checkpoint.grace)" } else { "" };
        (self.pieces > 1).then(|| {
            format!(
                "at least {} runs of {} (needs \
            checkpoints){of}",
                self.pieces,
                self.length()
            )
        })
    }

    /// Returns the length of the limit in words: `12 h`.
    pub fn length(self) -> String {
        match self.minutes {
            minutes if minutes >= 1440 && minutes % 1440 == 0 => format!("{} d", minutes / 1440),
            minutes if minutes >= 60 && minutes % 60 == 0 => format!("{} h", minutes / 60),
            minutes if minutes > 60 => format!("{} h {} min", minutes / 60, minutes % 60),
            minutes => format!("{minutes} min"),
        }
    }
}

/// The queue parameters of a submission whose job leaves several possibilities, chosen among the job's
/// requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueChoice {
    /// `None` means the user's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// `None` means the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The longest limit that the request may have; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Seconds>,
    /// The source of the speed on the submission's GPUs.
    #[serde(default)]
    pub basis: SpeedBasis,
    /// The shortest limit that the request may have, if partitions allow it: twice the limit that cut the job
    /// before it finished an epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Seconds>,
    /// The partition's billing per hour; `None` if it is zero or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed_per_hour: Option<f64>,
}

/// The source of a speed, the least certain first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedBasis {
    /// Derived from other models or GPU types.
    Estimated,
    /// The user stated the speed.
    #[default]
    Stated,
    /// The job's model ran on these GPUs.
    Measured,
}

impl QueueChoice {
    /// Returns the queue choice of a submission with the job's own account and partitions; `longest` is the
    /// shortest of these partitions' limits.
    pub fn usual(longest: Option<Seconds>, basis: SpeedBasis) -> Self {
        Self { longest, basis, ..Self::default() }
    }

    /// Returns the walltime of the job's remaining work: `predicted` times the margin plus the time to save,
    /// in quarters of an hour, at least `at_least`, and up to the longest allowed limit and the limit set by
    /// the user. Until the speed is measured, the user's limit is also a minimum.
    pub fn walltime(&self, job: &Job, predicted: Seconds, defaults: &JobDefaults) -> Walltime {
        let checkpoint = &job.launch.checkpoint;
        let slow = if self.basis == SpeedBasis::Estimated { ESTIMATED } else { 1.0 };
        let limits = self.longest.into_iter().chain(job.launch.time).map(|limit| limit.0);
        let owners = job.launch.time.filter(|_| self.basis != SpeedBasis::Measured);
        let least = owners.into_iter().chain(self.at_least).map(|limit| limit.0);
        Walltime::of(&WalltimeNeeds {
            predicted,
            margin: slow * defaults.time_margin,
            grace: checkpoint.grace.unwrap_or(defaults.grace),
            restart: checkpoint.restart_cost.unwrap_or(Seconds(0.0)),
            least: Seconds(least.fold(0.0, f64::max)),
            longest: Seconds(limits.fold(f64::INFINITY, f64::min)),
        })
    }
}

/// Returns the number of pieces of at most `piece` seconds into which a run is divided, each with a restart
/// at its beginning; 1 if the run fits into one piece.
fn in_pieces(run: f64, piece: f64, restart: f64) -> f64 {
    if run <= piece { 1.0 } else { (run / (piece - restart).max(MINUTE.min(piece))).ceil() }
}

impl Walltime {
    /// Returns the number of pieces after the first.
    pub fn further_pieces(self) -> u32 {
        u32::try_from(self.pieces.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Returns the total time without training after the first start if each piece waits this long.
    pub fn gaps(self, wait: Seconds) -> Seconds {
        let gap = (wait.0 - Self::AHEAD * self.limit().0).max(0.0);
        Seconds(f64::from(self.further_pieces()) * gap)
    }

    /// Returns the limit in seconds.
    pub fn limit(self) -> Seconds {
        Seconds(to_f64(self.minutes) * MINUTE)
    }
}

impl Cluster {
    /// Returns the shortest walltime limit among a job's partitions, if any is known.
    pub fn time_limit(&self, job: &Job, defaults: &JobDefaults) -> Option<Seconds> {
        let limits = self.partition_of(job, defaults)?.split(',').filter_map(|name| self.limit_of(name));
        limits.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns the walltime limit of a partition; `None` if it has none or is unknown.
    fn limit_of(&self, name: &str) -> Option<Seconds> {
        self.partitions.iter().find(|partition| partition.name == name.trim())?.max_time
    }

    /// Returns a job's possible queue choices: each account with all partitions of the job and their shortest
    /// limit, and with only those partitions that allow a longer limit. Slurm starts a job with several
    /// partitions in the first one that has room.
    ///
    /// If the job leaves no choice, account or partition is `None`.
    pub fn ways(&self, job: &Job, defaults: &JobDefaults) -> Vec<QueueChoice> {
        let names: Vec<&str> =
            self.partition_of(job, defaults).unwrap_or_default().split(',').map(str::trim).collect();
        let limit = |name: &str| self.limit_of(name).map_or(f64::INFINITY, |longest| longest.0);
        let mut limits: Vec<f64> = names.iter().map(|name| limit(name)).collect();
        limits.sort_by(f64::total_cmp);
        limits.dedup();
        let first = job.launch.account.as_ref().or(defaults.account.as_ref());
        let accounts: Vec<Option<&String>> = match &job.launch.other_accounts[..] {
            [] => vec![None],
            others => first.into_iter().chain(others).map(Some).collect(),
        };
        let within = |least: f64| {
            let able: Vec<&str> = names.iter().copied().filter(|name| limit(name) >= least).collect();
            (names.len() > 1).then(|| able.join(","))
        };
        let way = |account: Option<&String>, least: f64| QueueChoice {
            account: account.cloned(),
            partition: within(least),
            longest: Some(Seconds(least)).filter(|limit| limit.0.is_finite()),
            ..QueueChoice::default()
        };
        let ways = accounts.iter().flat_map(|&account| limits.iter().map(move |&least| (account, least)));
        ways.map(|(account, least)| way(account, least)).collect()
    }

    /// Returns whether a job leaves its account or partition open.
    pub fn leaves_ways(&self, job: &Job, defaults: &JobDefaults) -> bool {
        self.ways(job, defaults).iter().any(|choice| choice.account.is_some() || choice.partition.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Partition;

    #[test]
    fn what_waits_while_another_piece_runs_waits_less_after_it() {
        let walltime = Walltime { minutes: 720, pieces: 3, trains: Seconds(43_080.0) };
        let hours = |wait: f64| walltime.gaps(Seconds(wait * 3600.0)).0 / 3600.0;
        assert_eq!((hours(1.0), hours(6.0), hours(10.0)), (0.0, 0.0, 8.0));
    }

    #[test]
    fn a_job_may_go_to_all_its_partitions_and_to_those_alone_that_allow_longer_runs() {
        let partition = |name: &str, hours: Option<f64>| Partition {
            name: name.to_owned(),
            default: name == "gpu",
            max_time: hours.map(|hours| Seconds(hours * 3600.0)),
        };
        let partitions =
            vec![partition("gpu", None), partition("short", Some(3.0)), partition("day", Some(24.0))];
        let cluster = Cluster { partitions, ..Cluster::default() };
        let ways = |partition: Option<&str>, accounts: &[&str]| {
            let name = crate::JobName::new("a").expect("a name");
            let mut job = Job::only_planned(name, 1, 1, 1);
            job.launch.partition = partition.map(str::to_owned);
            let mut accounts = accounts.iter().map(|name| (*name).to_owned());
            (job.launch.account, job.launch.other_accounts) = (accounts.next(), accounts.collect());
            let word = |word: Option<String>| word.unwrap_or_else(|| "-".to_owned());
            let text = |choice: QueueChoice| {
                let hours = choice.longest.map_or("-".to_owned(), |longest| (longest.0 / 3600.0).to_string());
                format!("{} {} {hours}", word(choice.account), word(choice.partition))
            };
            cluster.ways(&job, &JobDefaults::default()).into_iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(ways(None, &[]), ["- - -"]);
        assert_eq!(ways(Some("day"), &["a"]), ["- - 24"]);
        assert_eq!(ways(Some("gpu, short"), &[]), ["- gpu,short 3", "- gpu -"]);
        let all = ["a short,day 3", "a day 24", "b short,day 3", "b day 24"];
        assert_eq!(ways(Some("short,day"), &["a", "b"]), all);
    }

    #[test]
    fn every_piece_begins_with_a_restart() {
        let hours =
            |run: f64, piece: f64, restart: f64| in_pieces(run * 3600.0, piece * 3600.0, restart * 3600.0);
        assert_eq!((hours(12.0, 12.0, 1.0), hours(24.0, 12.0, 0.0), hours(24.0, 12.0, 0.1)), (1.0, 2.0, 3.0));
        // A training whose restart takes a whole piece would never end.
        assert_eq!(hours(2.0, 1.0, 5.0), 120.0);
    }

    #[test]
    fn the_users_limit_holds_until_the_speed_is_measured_and_a_limit_that_cut_is_doubled() {
        let name = crate::JobName::new("a").expect("a name");
        let mut job = Job::only_planned(name, 1, 1, 1);
        let minutes = |job: &Job, basis, at_least: Option<f64>, longest: Option<f64>| {
            let hours = |hours: f64| Seconds(hours * 3600.0);
            let queue_choice = QueueChoice {
                basis,
                at_least: at_least.map(hours),
                longest: longest.map(hours),
                ..QueueChoice::default()
            };
            queue_choice.walltime(job, Seconds(60.0), &JobDefaults::default()).minutes
        };
        let unlimited = |basis| minutes(&job, basis, None, None);
        assert_eq!([SpeedBasis::Estimated, SpeedBasis::Stated, SpeedBasis::Measured].map(unlimited), [15; 3]);
        assert_eq!(minutes(&job, SpeedBasis::Stated, Some(0.5), None), 30);
        assert_eq!(minutes(&job, SpeedBasis::Stated, Some(48.0), Some(24.0)), 24 * 60);
        job.launch.time = Some(Seconds(3.0 * 3600.0));
        assert_eq!(minutes(&job, SpeedBasis::Estimated, None, None), 180);
        assert_eq!(minutes(&job, SpeedBasis::Stated, None, None), 180);
        assert_eq!(minutes(&job, SpeedBasis::Stated, None, Some(2.0)), 120);
        assert_eq!(minutes(&job, SpeedBasis::Measured, None, None), 15);
        assert_eq!(minutes(&job, SpeedBasis::Measured, Some(2.0), None), 120);
        assert_eq!(minutes(&job, SpeedBasis::Measured, Some(8.0), None), 180);
    }

    /// Returns the needs of a run that takes two minutes to save, with times in seconds.
    fn needs(predicted: f64, margin: f64, longest: f64) -> WalltimeNeeds {
        WalltimeNeeds {
            predicted: Seconds(predicted),
            margin,
            grace: Seconds(120.0),
            restart: Seconds(0.0),
            least: Seconds(0.0),
            longest: Seconds(longest),
        }
    }

    #[test]
    fn the_time_has_a_margin_and_respects_every_limit() {
        let check = |predicted, (margin, longest): (f64, f64), minutes, said: Option<&str>| {
            let walltime = Walltime::of(&needs(predicted, margin, longest));
            assert_eq!((walltime.minutes, walltime.cut(true).as_deref()), (minutes, said));
        };
        let (usual, none) = (USUAL_MARGIN, f64::INFINITY);
        check(3600.0, (usual, none), 75, None);
        check(3600.0, (usual * ESTIMATED, none), 105, None);
        check(3600.0, (usual, 1830.0), 30, Some("at least 3 runs of 30 min (needs checkpoints)"));
        check(
            12_000.0,
            (usual, 180.0),
            3,
            Some(
                "at least 134 runs of 3 min (needs checkpoints), half of each reserved for saving (checkpoint.grace)",
            ),
        );
        check(1e6, (usual, 43_200.0), 720, Some("at least 24 runs of 12 h (needs checkpoints)"));
        check(1e6, (usual, 259_200.0), 4320, Some("at least 4 runs of 3 d (needs checkpoints)"));
        check(1e5, (usual, 9000.0), 150, Some("at least 12 runs of 2 h 30 min (needs checkpoints)"));
        check(1.0, (usual, none), 15, None);
        check(
            f64::INFINITY,
            (usual, none),
            5_256_000,
            Some("at least 1000000000 runs of 3650 d (needs checkpoints)"),
        );
        check(10.0, (usual, 30.0), 1, None);
        // The grace of two minutes exceeds the limit, so half a minute remains for training.
        let half = "at least 4 runs of 1 min (needs checkpoints), half of each reserved for saving (checkpoint.grace)";
        check(100.0, (usual, 60.0), 1, Some(half));
        check(
            100.0,
            (usual, 180.0),
            3,
            Some(
                "at least 2 runs of 3 min (needs checkpoints), half of each reserved for saving (checkpoint.grace)",
            ),
        );
    }

    #[test]
    fn a_job_that_cannot_go_on_is_not_cut_into_pieces() {
        let walltime = |hours: f64| Walltime::of(&needs(hours * 3600.0, USUAL_MARGIN, 43_200.0));
        assert_eq!([11.0, 13.0].map(|hours| walltime(hours).suits(false)), [true, false]);
        assert_eq!((walltime(11.0).cut(false), walltime(13.0).suits(true)), (None, true));
        let said = "longer than its time limit of 12 h; the job starts over after the limit; if its \
            program can resume, add the key checkpoint";
        assert_eq!(walltime(13.0).cut(false).as_deref(), Some(said));
    }
}
