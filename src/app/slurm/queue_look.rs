//! A snapshot of Slurm's queue from few commands, each called as rarely as possible.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::app::context::Context;
use crate::app::slurm::cached_query::{SLOW, SlurmQuery, ask};
use crate::app::slurm::permissions::user_name;
use crate::app::slurm::printed_cluster;
use crate::app::{site_waits, state};
use crate::settings::Feature;
use hsched_engine::clock::Clock;
use hsched_engine::store::{CachedOutput, OutputCache};
use hsched_model::{Cluster, ErrorId, Seconds, Time};
use hsched_queue::Snapshot;
use hsched_slurm::queue::{self, QueueLook, Texts, history, jobs, limits};
use hsched_slurm::site::{self, Config};
use hsched_slurm::{CommandLine, System, sinfo};
use hsched_ui::{Exit, Failure};

/// The queue as it was read.
pub(crate) struct AgedSnapshot {
    pub snapshot: Snapshot,
    /// The snapshot's age.
    pub age: Seconds,
}

/// Maximum age of a look that is used without reading the queue again.
pub(crate) const MINUTE: Seconds = Seconds(60.0);
const HOUR: Seconds = Seconds(3600.0);
const DAY: Seconds = Seconds(86400.0);

/// Time limit of a command; after it, the last answer is used.
const LIMIT: Duration = Duration::from_secs(10);

/// Minimum age of a look that answers mention in their first line.
pub(crate) const WORTH_SAYING: Seconds = Seconds(1.0);

/// Maximum age of a look from which a start at once may be concluded: free GPUs may be taken within seconds.
pub(crate) const FRESH: Seconds = Seconds(5.0);

/// Maximum age of a look if Slurm answers quickly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    AMinute,
    Seconds,
    Now,
}

impl Freshness {
    /// Returns the maximum age of a look with or without `--refresh`.
    pub(crate) fn of(refresh: bool) -> Self {
        if refresh { Self::Now } else { Self::AMinute }
    }

    fn good_for(self) -> Seconds {
        match self {
            Self::AMinute => MINUTE,
            Self::Seconds => FRESH,
            Self::Now => Seconds(0.0),
        }
    }
}

/// Returns Slurm's queue and stores its data for learning.
///
/// # Errors
/// If the site forbids it, Slurm never answered (exit 69), or its answer is unreadable.
pub(crate) fn look(context: &Context, freshness: Freshness) -> Result<AgedSnapshot, Failure> {
    let looked = seen(context, freshness.good_for(), printed)?;
    site_waits::keep(context, &looked.snapshot);
    Ok(looked)
}

/// Returns the queue, at most as old as `freshness` allows if Slurm answers quickly. If Slurm has never shown
/// its queue, returns only the nodes, as if other users' jobs were hidden.
///
/// # Errors
/// If the site forbids it, Slurm does not show its nodes either (exit 69), or an answer is unreadable.
pub(crate) fn look_at_nodes_at_least(
    context: &Context,
    freshness: Freshness,
) -> Result<AgedSnapshot, Failure> {
    let mut why = None;
    let mut looked = seen(context, freshness.good_for(), |answer| {
        printed(answer).or_else(|failure| {
            why = Some(failure.message);
            Ok("")
        })
    })?;
    if let Some(why) = why {
        looked.snapshot.others_hidden = true;
        looked.snapshot.notes = vec![format!("cannot estimate when requests start: {why}")];
    } else {
        site_waits::keep(context, &looked.snapshot);
    }
    Ok(looked)
}

/// Reads the queue, with lists of jobs and nodes that are valid for this long; `jobs_of` returns the jobs' text from the
/// output of `squeue`.
fn seen(
    context: &Context,
    good_for: Seconds,
    jobs_of: impl FnOnce(&CachedOutput) -> Result<&str, Failure>,
) -> Result<AgedSnapshot, Failure> {
    context.refuse_forbidden(Feature::Queue)?;
    let limit_s = context.settings.slurm_timeout.0.min(LIMIT.as_secs_f64());
    let limit = Duration::try_from_secs_f64(limit_s).unwrap_or(LIMIT);
    let site = CachedSlurm {
        slurm: System::new(crate::settings::process_environment(), limit),
        clock: &context.clock,
        answers: OutputCache::of(&state::root(context)?),
    };
    let (previous, earlier) = (site.answers.get("squeue"), site.answers.get("squeue-earlier"));
    let config = site.ask("config", HOUR, &site::config_command());
    let release = Config::parse(config.text.as_deref().unwrap_or_default()).release();
    let squeue = site.ask("squeue", good_for, &jobs::command(release));
    site.keep_earlier(&previous, &earlier, squeue.at);
    let sinfo = site.ask("sinfo", good_for, &sinfo::command());
    let (jobs_text, nodes_text) = (jobs_of(&squeue)?, printed(&sinfo)?);
    let seen = printed_cluster(context, nodes_text)?;
    let rest = site.rest(config, &seen.cluster);
    let texts = Texts {
        squeue: jobs_text,
        cluster: &seen.cluster,
        config: rest.config.text.as_deref(),
        partitions: rest.partitions.text.as_deref(),
        reservations: rest.reservations.text.as_deref(),
        shares: rest.shares.text.as_deref().map(|text| (rest.shares.at, text)),
        default_account: rest.default_account.text.as_deref(),
        limits: rest.associations.text.as_deref().zip(rest.qos.text.as_deref()),
        history: rest.history.text.as_deref().map(|text| (rest.history.at, text)),
        later: rest.later.text.as_deref().map(|text| (rest.later.at, text)),
        earlier: earlier.text.as_deref().map(|text| (earlier.at, text)),
    };
    // If Slurm never showed its queue, the look has only nodes.
    let at = if squeue.text.is_some() { squeue.at } else { sinfo.at };
    let snapshot = queue::snapshot(texts, QueueLook { at, user: &user_name() });
    let mut snapshot =
        snapshot.map_err(|error| Failure::from_error(Exit::Failed, &error).id(ErrorId::SlurmOutput))?;
    site.keep_growth(&mut snapshot);
    let age = state::now(context).since(at);
    snapshot.notes.extend(rest.missing());
    snapshot.notes.extend(old(&squeue, age));
    Ok(AgedSnapshot { snapshot, age })
}

/// Access to Slurm and to its cached answers.
struct CachedSlurm<'a> {
    slurm: System,
    clock: &'a dyn Clock,
    answers: OutputCache,
}

/// Data that are queried once an hour or once a day.
struct Rest {
    config: CachedOutput,
    partitions: CachedOutput,
    reservations: CachedOutput,
    shares: CachedOutput,
    default_account: CachedOutput,
    associations: CachedOutput,
    qos: CachedOutput,
    history: CachedOutput,
    /// Jobs that ended since the history was queried.
    later: CachedOutput,
    has_accounting: bool,
    /// Whether associations and QOS were queried, because Slurm enforces limits or preempts by QOS.
    asked_limits: bool,
}

impl CachedSlurm<'_> {
    fn ask(&self, name: &'static str, good_for: Seconds, command: &CommandLine) -> CachedOutput {
        ask(SlurmQuery { name, good_for }, command, &self.slurm, self.clock, &self.answers)
    }

    fn rest(&self, config: CachedOutput, cluster: &Cluster) -> Rest {
        let known = Config::parse(config.text.as_deref().unwrap_or_default());
        let has_accounting = known.has_accounting();
        let (mut associations, mut qos, mut default_account) =
            <(CachedOutput, CachedOutput, CachedOutput)>::default();
        let asked_limits = has_accounting && (queue::enforced(&known) || queue::by_qos(&known));
        if asked_limits {
            let user = user_name();
            // An empty name would stand for all users.
            if !user.is_empty() {
                default_account = self.ask("default-account", HOUR, &queue::default_account_command(&user));
            }
            associations = self.ask("limits", HOUR, &limits::associations_command());
            qos = self.ask("qos", HOUR, &limits::qos_command());
        }
        let (mut shares, mut history, mut later) = <(CachedOutput, CachedOutput, CachedOutput)>::default();
        if has_accounting {
            shares = self.ask("sshare", HOUR, &queue::shares_command());
            let past = history::command(self.clock.now(), &with_gpus(cluster));
            history = self.ask("history", DAY, &past);
            let age = self.clock.time().since(history.at);
            if history.text.is_some() && age >= HOUR {
                let ends = history::later_command(age, self.clock.now(), &with_gpus(cluster));
                later = self.ask("history-later", HOUR, &ends);
            }
        }
        Rest {
            partitions: self.ask("partitions", HOUR, &site::partitions_command()),
            reservations: self.ask("reservations", HOUR, &queue::reservations_command()),
            config,
            shares,
            default_account,
            associations,
            qos,
            history,
            later,
            has_accounting,
            asked_limits,
        }
    }

    /// Stores the growth of priorities, and restores it for looks that are too close to an earlier one to
    /// measure it.
    fn keep_growth(&self, snapshot: &mut Snapshot) {
        let (now, known) = (snapshot.taken_at, self.answers.get("growth"));
        match snapshot.scheduling.priority_per_hour {
            Some(growth) if known.at != now => {
                let answer =
                    CachedOutput { text: Some(growth.to_string()), at: now, ..CachedOutput::default() };
                // If this fails, growth is unknown until there is an earlier look.
                let _ = self.answers.keep("growth", &answer);
            }
            None if now.since(known.at) < DAY => {
                let told = known.text.and_then(|text| text.parse().ok());
                snapshot.scheduling.priority_per_hour = told;
            }
            _ => {}
        }
    }

    /// Stores the previous answer, at most once an hour; the growth of priorities is measured from it.
    fn keep_earlier(&self, previous: &CachedOutput, earlier: &CachedOutput, now: Time) {
        let is_due = earlier.text.is_none() || now.since(earlier.at) > HOUR || now < earlier.at;
        if previous.text.is_some() && previous.at < now && is_due {
            // If this fails, growth is unknown until the next time.
            let _ = self.answers.keep("squeue-earlier", previous);
        }
    }
}

impl Rest {
    /// Returns a note on each query without an answer, except those for the default account and for jobs that
    /// ended since the history was queried.
    fn missing(&self) -> Vec<String> {
        let told = [
            (&self.config, "the scheduler's configuration is unknown"),
            (&self.partitions, "the partitions' limits are unknown"),
            (&self.reservations, "reservations are unknown"),
        ];
        let mut notes: Vec<String> =
            told.iter().filter_map(|(answer, what)| unanswered(answer, what)).collect();
        if self.has_accounting {
            notes.extend(unanswered(&self.shares, "the accounts' fair shares are unknown"));
            if self.asked_limits {
                notes.extend(unanswered(&self.associations, "the limits of accounts are unknown"));
                notes.extend(unanswered(&self.qos, "the limits of QOS are unknown"));
            }
            notes.extend(unanswered(&self.history, "the history of past jobs is unknown"));
        } else if self.config.text.is_some() {
            notes.push(
                "the history of past jobs is unknown: this Slurm has no accounting database".to_owned(),
            );
        }
        notes
    }
}

/// Returns a note that a query has no answer, and why.
fn unanswered(answer: &CachedOutput, what: &str) -> Option<String> {
    let why = answer.failure.as_deref().unwrap_or("Slurm printed nothing");
    answer.text.is_none().then(|| format!("{what}: {why}"))
}

/// Returns the output.
///
/// # Errors
/// If there never was any.
fn printed(answer: &CachedOutput) -> Result<&str, Failure> {
    let why = || answer.failure.clone().unwrap_or_else(|| "Slurm did not answer".to_owned());
    answer.text.as_deref().ok_or_else(|| {
        Failure::new(Exit::SlurmUnavailable, why())
            .id(ErrorId::SlurmUnreachable)
            .hint("without Slurm, use a saved snapshot of the queue: --snapshot FILE")
    })
}

/// Returns a note if the queue is outdated, because Slurm did not answer, or is not called because of a slow
/// answer.
fn old(answer: &CachedOutput, age: Seconds) -> Option<String> {
    let minutes = (age.0 / 60.0).round();
    let why = match &answer.failure {
        Some(why) => why.clone(),
        None if answer.took >= SLOW => {
            format!("squeue took {:.0} s, so hsched runs it only every 15 min", answer.took.0)
        }
        None => return None,
    };
    Some(format!("using the queue as of {minutes} min ago: {why}"))
}

/// Returns the partitions with GPUs, if others have none; empty means all.
fn with_gpus(cluster: &Cluster) -> Vec<String> {
    let all: BTreeSet<&String> = cluster.partitions.iter().map(|partition| &partition.name).collect();
    let nodes = cluster.nodes.iter().filter(|node| !node.gpus.is_empty());
    let named: BTreeSet<&String> = nodes.flat_map(|node| &node.partitions).collect();
    if named.len() == all.len() { Vec::new() } else { named.into_iter().cloned().collect() }
}
