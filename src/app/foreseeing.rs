//! When the requests of jobs would start, for `watch --queue`: each beside what the jobs before it are likely to ask for.

use std::time::Duration;

use crate::app::context::Context;
use crate::app::queue_look;
use hsched_engine::clock::Clock;
use hsched_engine::{Inquiry, Kind, Wanted};
use hsched_model::number::{to_u64, to_usize};
use hsched_model::{Bytes, JobDefaults, JobId, Seconds, Terms, Walltime};
use hsched_plan::{Outlook, Prospect};
use hsched_queue::{
    Asks, GpuAsk, Outlook as Foretold, Place, Question, QueueJob, Request, Snapshot, StandingSource,
    forecast_at,
};

/// Futures that each request is tried in, and how long all together may take.
const SAMPLES: usize = 40;
const BUDGET: Duration = Duration::from_secs(5);

/// Returns what is known of the requests of some jobs; nothing where Slurm does not tell, and of no job for which there was no time.
pub(crate) fn outlooks(context: &Context, inquiries: &[Inquiry]) -> Vec<Outlook> {
    let looked = match queue_look::look(context) {
        Ok(looked) => looked,
        Err(failure) => {
            context.note(&format!("cannot estimate when requests start: {}", failure.message));
            return Vec::new();
        }
    };
    looked.snapshot.notes.iter().for_each(|note| context.note(note));
    let mut snapshot = looked.snapshot;
    if snapshot.others_hidden {
        return Vec::new();
    }
    let until = context.clock.elapsed() + BUDGET;
    // Who has nothing yet comes first; of the others another one each time.
    let (pending, ready): (Vec<&Inquiry>, Vec<&Inquiry>) = inquiries.iter().partition(|own| own.waits());
    let turn = to_usize(snapshot.taken_at.0 / 60.0) % pending.len().max(1);
    let order =
        ready.into_iter().chain(pending[turn..].iter().copied()).chain(pending[..turn].iter().copied());
    let mut list: Vec<Outlook> = Vec::new();
    for inquiry in order {
        if context.clock.elapsed() > until && !list.is_empty() {
            break;
        }
        let teller = Teller { context, inquiry, until };
        let outlook = teller.outlook(&snapshot);
        if !inquiry.waits() {
            snapshot.jobs.extend(teller.likely(&outlook, &snapshot));
        }
        list.push(outlook);
    }
    list
}

/// What is asked about one job.
struct Teller<'a> {
    context: &'a Context,
    inquiry: &'a Inquiry,
    /// When it must be answered, by the clock's time.
    until: Duration,
}

/// A request that the job could make.
struct Asked {
    /// The place of its GPUs among the options, and of its account and partitions among the ways of these.
    option: usize,
    way: usize,
    walltime: Walltime,
    request: Request,
}

impl Teller<'_> {
    fn outlook(&self, snapshot: &Snapshot) -> Outlook {
        let inquiry = self.inquiry;
        let all = self.all(snapshot);
        let unknown = |own: &Wanted| Prospect { too_short: own.ways.is_empty(), ..Prospect::default() };
        let mut options: Vec<Prospect> = inquiry.options.iter().map(unknown).collect();
        let requests: Vec<Request> = all.iter().map(|own| own.request.clone()).collect();
        // What waits is compared with what could be: both have as long.
        let begin = self.context.clock.elapsed();
        let half = self.until.saturating_sub(begin) / 2;
        let until = if inquiry.waits() { begin + half } else { self.until };
        for (own, wait) in all.iter().zip(self.waits(snapshot, (&requests, &[]), until)) {
            let known = &mut options[own.option];
            if let Some(wait) = wait.map(|wait| own.whole(wait))
                && known.anew.is_none_or(|anew| wait.0 < anew.0)
            {
                (known.anew, known.anew_way) = (Some(wait), own.way);
            }
        }
        let mut stays = vec![None; inquiry.pending.len()];
        for (place, id) in inquiry.pending.iter().enumerate() {
            let Some((own, rest)) = id.and_then(|id| without(snapshot, id)) else { continue };
            let mut asked = as_it_is(&own, snapshot);
            let mut places = vec![Some(Place::of(&own)); asked.len()];
            let now = asked.len();
            let mut changes = Vec::new();
            let is_new = |change: &&Asked| {
                let option = &inquiry.options[change.option];
                option.in_place == *id && !option.there.contains(&change.way)
            };
            for change in all.iter().filter(is_new) {
                let Some(place) = place_after(&own, &change.request, snapshot) else { continue };
                let mut request = change.request.clone();
                request.partition = request.partition.or_else(|| asked[0].partition.clone());
                asked.push(request);
                places.push(Some(place));
                changes.push(change);
            }
            let waits = self.waits(&rest, (&asked, &places), self.until);
            let soonest = waits[..now].iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
            stays[place] = soonest.map(|wait| self.whole(&own, (*id, *wait)));
            for (change, wait) in changes.into_iter().zip(&waits[now..]) {
                let known = &mut options[change.option];
                if let Some(wait) = wait.map(|wait| change.whole(wait))
                    && known.in_place.is_none_or(|before| wait.0 < before.0)
                {
                    (known.in_place, known.in_place_way) = (Some(wait), change.way);
                }
            }
        }
        Outlook { job: inquiry.job, stays, races: inquiry.races, options }
    }

    /// Returns all requests that the job could make, each for one partition.
    fn all(&self, snapshot: &Snapshot) -> Vec<Asked> {
        let mut list = Vec::new();
        for (option, own) in self.inquiry.options.iter().enumerate() {
            let mut known: Vec<(&Option<String>, u64)> = Vec::new();
            for (way, terms) in &own.ways {
                let walltime = terms.walltime(&self.inquiry.rest, own.run, &self.context.settings.jobs);
                // With the same limit it may go to fewer partitions only.
                if known.contains(&(&terms.account, walltime.minutes)) {
                    continue;
                }
                known.push((&terms.account, walltime.minutes));
                for partition in self.partitions(snapshot, terms, walltime.limit()) {
                    let request = self.request((&own.kind, own.run), (terms, walltime.limit()), partition);
                    list.push(Asked { option, way: *way, walltime, request });
                }
            }
        }
        list
    }

    /// Returns how long a pending request keeps the job waiting in all, if its first piece waits so long.
    fn whole(&self, own: &QueueJob, (id, wait): (Option<JobId>, Seconds)) -> Seconds {
        let gpus = own.asks.gpus.first().map_or(0, |ask| ask.count);
        let is_same = |kind: &Kind| (kind.nodes, kind.per_node) == (own.asks.nodes, gpus);
        let same = self.inquiry.options.iter().find(|option| option.in_place == id && is_same(&option.kind));
        let cut = same.map(|option| {
            let terms = Terms { longest: own.limit_s, ..Terms::default() };
            terms.walltime(&self.inquiry.rest, option.run, &self.context.settings.jobs)
        });
        Seconds(wait.0 + cut.map_or(0.0, |walltime| walltime.gaps(wait).0))
    }

    /// Returns how long each request would wait, on average. Where others wait already and there was no time for a single future, nothing:
    /// with all jobs at their limits these would seem late beside others.
    fn waits(
        &self,
        snapshot: &Snapshot,
        (requests, places): (&[Request], &[Option<Place>]),
        until: Duration,
    ) -> Vec<Option<Seconds>> {
        let question = Question { snapshot, requests, seed: 0, samples: SAMPLES, calibration: None };
        let stop = || self.context.clock.elapsed() > until;
        let outlooks = forecast_at(&question, places, &stop);
        let sampled =
            |outlook: &Foretold| matches!(outlook, Foretold::Estimated(own) if !own.starts.is_empty());
        let is_known = !self.inquiry.waits() || outlooks.iter().any(sampled);
        let wait = |outlook: Foretold| match outlook {
            Foretold::Estimated(own) if is_known => Some(own.start.mean),
            Foretold::Estimated(_) | Foretold::Unknown(_) | Foretold::Never | Foretold::Refused(_) => None,
        };
        outlooks.into_iter().map(wait).collect()
    }

    /// Returns the job that the request will be which is done first: those after it find it in the queue.
    fn likely(&self, outlook: &Outlook, snapshot: &Snapshot) -> Option<QueueJob> {
        let finish = |number: &usize| {
            let (known, own) = (&outlook.options[*number], &self.inquiry.options[*number]);
            known.anew.map_or(f64::INFINITY, |wait| wait.0 + own.run.0)
        };
        let best = (0..outlook.options.len()).min_by(|a, b| finish(a).total_cmp(&finish(b)))?;
        let way = outlook.options[best].anew_way;
        let mut requests = self.all(snapshot).into_iter().filter(|own| (own.option, own.way) == (best, way));
        let Request { asks, account, limit, partition, .. } = requests.next()?.request;
        let others = requests.filter_map(|own| own.request.partition);
        let standing = snapshot.standing(account.as_deref());
        let priority = to_u64(standing.priority.max(0.0));
        finish(&best).is_finite().then(|| QueueJob {
            id: format!("of {}", self.inquiry.rest.name),
            ours: true,
            account,
            partitions: partition.into_iter().chain(others).collect(),
            priority: Some(priority),
            submitted: Some(snapshot.taken_at),
            limit_s: Some(limit),
            asks,
            tasks: 1,
            ..QueueJob::default()
        })
    }

    /// Returns the partitions that a request could start in: those that allow its account and its limit, else the first.
    fn partitions(&self, snapshot: &Snapshot, terms: &Terms, limit: Seconds) -> Vec<Option<String>> {
        let (own, defaults) = (&self.inquiry.rest.launch, &self.context.settings.jobs);
        let named = terms.partition.as_ref().or(own.partition.as_ref()).or(defaults.partition.as_ref());
        let Some(named) = named else { return vec![None] };
        let names: Vec<&str> = named.split(',').map(str::trim).collect();
        let account = self.account(terms);
        let allows = |name: &&&str| {
            let known = snapshot.partitions.iter().find(|own| own.name == **name);
            known.is_none_or(|own| {
                let may = own
                    .accounts
                    .as_ref()
                    .is_none_or(|all| account.as_ref().is_none_or(|name| all.contains(name)));
                may && own.max_time_s.is_none_or(|longest| longest >= limit)
            })
        };
        let mut able: Vec<&str> = names.iter().filter(allows).copied().collect();
        if able.is_empty() {
            able.extend(names.first());
        }
        able.into_iter().map(|name| Some(name.to_owned())).collect()
    }

    fn account(&self, terms: &Terms) -> Option<String> {
        let (own, defaults) = (&self.inquiry.rest.launch.account, &self.context.settings.jobs.account);
        terms.account.clone().or_else(|| own.clone()).or_else(|| defaults.clone())
    }

    fn request(
        &self,
        (kind, run): (&Kind, Seconds),
        (terms, limit): (&Terms, Seconds),
        partition: Option<String>,
    ) -> Request {
        let (defaults, job): (&JobDefaults, _) = (&self.context.settings.jobs, &self.inquiry.rest);
        let (needs, ranks) = (defaults.rank_needs(job), u64::from(kind.per_node));
        let memory = Bytes(needs.memory).whole_mebibytes() * ranks;
        let gpus = vec![GpuAsk { gpu_type: Some(kind.gpu_type.clone()), count: kind.per_node }];
        Request {
            asks: Asks {
                nodes: kind.nodes,
                gpus,
                cpus: (needs.cpus > 0).then_some(needs.cpus * ranks),
                memory_mib: (memory > 0).then_some(memory),
                ..Asks::default()
            },
            partition,
            account: self.account(terms),
            limit,
            run: Seconds(run.0.min(limit.0)),
        }
    }
}

impl Asked {
    /// Returns how long the job waits in all, if its first piece waits so long.
    fn whole(&self, wait: Seconds) -> Seconds {
        Seconds(wait.0 + self.walltime.gaps(wait).0)
    }
}

/// Returns the place that a pending job has when it is changed to a request; `None` where nobody knows what its account is worth.
fn place_after(own: &QueueJob, to: &Request, snapshot: &Snapshot) -> Option<Place> {
    let place = Place::of(own);
    if to.account.is_none() || to.account == own.account {
        return Some(place);
    }
    let worth = |account: Option<&String>| {
        let standing = snapshot.standing(account.map(String::as_str));
        matches!(standing.source, StandingSource::OwnJob | StandingSource::Weights)
            .then_some(standing.priority)
    };
    let gain = worth(to.account.as_ref())? - worth(own.account.as_ref())?;
    Some(Place { priority: place.priority + gain, ..place })
}

/// Returns a pending job of the queue and the queue without it; `None` where it is not there or waits for something else than room.
fn without(snapshot: &Snapshot, id: JobId) -> Option<(QueueJob, Snapshot)> {
    let id = id.to_string();
    let waits = |job: &&QueueJob| job.id == id && job.running.is_none() && !job.waits_for_other;
    let own = snapshot.jobs.iter().find(waits)?.clone();
    let jobs = snapshot.jobs.iter().filter(|job| job.id != id).cloned().collect();
    Some((own, Snapshot { jobs, ..snapshot.clone() }))
}

/// Returns the requests that a pending job is, one for each of its partitions.
fn as_it_is(own: &QueueJob, snapshot: &Snapshot) -> Vec<Request> {
    let limit = own.limit_s.unwrap_or_else(|| snapshot.longest_limit(own));
    let account = own.account.clone();
    let request = |partition: Option<String>| Request {
        asks: own.asks.clone(),
        partition,
        account: account.clone(),
        limit,
        run: limit,
    };
    if own.partitions.is_empty() {
        return vec![request(None)];
    }
    own.partitions.iter().cloned().map(|name| request(Some(name))).collect()
}
