//! When the requests of jobs would start, for `watch --queue`: each beside what the jobs before it are likely to ask for.

use std::time::Duration;

use crate::app::context::Context;
use crate::app::queue_look;
use crate::clock::Clock;
use crate::engine::{Inquiry, Kind};
use crate::model::{Bytes, JobDefaults, JobId, Seconds};
use crate::policy::{Outlook, Prospect};
use crate::queue::{
    Asks, GpuAsk, Outlook as Foretold, Place, Question, QueueJob, Request, Snapshot, forecast_at,
};

/// Futures that each request is tried in, and how long all together may take.
const SAMPLES: usize = 40;
const BUDGET: Duration = Duration::from_secs(5);

/// Returns what is known of the requests of some jobs; nothing where Slurm does not tell, and of no job for which there was no time.
pub(crate) fn outlooks(context: &Context, inquiries: &[Inquiry]) -> Vec<Outlook> {
    let looked = match queue_look::look(context) {
        Ok(looked) => looked,
        Err(failure) => {
            context.note(&format!("when requests would start is not known: {}", failure.message));
            return Vec::new();
        }
    };
    looked.snapshot.notes.iter().for_each(|note| context.note(note));
    let mut snapshot = looked.snapshot;
    if snapshot.others_hidden {
        return Vec::new();
    }
    let begin = context.clock.elapsed();
    let is_over = || context.clock.elapsed().saturating_sub(begin) > BUDGET;
    let waits = |inquiry: &Inquiry| inquiry.pending.iter().any(Option::is_some);
    // Who has nothing yet comes first; of the others another one each time.
    let (pending, ready): (Vec<&Inquiry>, Vec<&Inquiry>) = inquiries.iter().partition(|own| waits(own));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "minutes since 1970")]
    let turn = (snapshot.taken_at.0 / 60.0) as usize % pending.len().max(1);
    let order =
        ready.into_iter().chain(pending[turn..].iter().copied()).chain(pending[..turn].iter().copied());
    let mut list: Vec<Outlook> = Vec::new();
    for inquiry in order {
        if is_over() && !list.is_empty() {
            break;
        }
        let teller = Teller { context, inquiry, stop: &is_over };
        let outlook = teller.outlook(&snapshot);
        if !waits(inquiry) {
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
    stop: &'a dyn Fn() -> bool,
}

impl Teller<'_> {
    fn outlook(&self, snapshot: &Snapshot) -> Outlook {
        let inquiry = self.inquiry;
        let requests: Vec<Request> = inquiry
            .options
            .iter()
            .map(|own| self.request(snapshot, (&own.kind, own.run, own.limit)))
            .collect();
        let anew = self.waits(snapshot, &requests, &[]);
        let mut options: Vec<Prospect> =
            anew.into_iter().map(|anew| Prospect { anew, in_place: None }).collect();
        let mut stays = vec![None; inquiry.pending.len()];
        for (place, id) in inquiry.pending.iter().enumerate() {
            let Some((own, rest)) = id.and_then(|id| without(snapshot, id)) else { continue };
            let changed = |own: &crate::engine::Wanted| own.in_place.is_some() && own.in_place == *id;
            let numbers: Vec<usize> =
                (0..requests.len()).filter(|&number| changed(&inquiry.options[number])).collect();
            let mut asked = vec![as_it_is(&own, snapshot)];
            let partition = asked[0].partition.clone();
            let change =
                |&number: &usize| Request { partition: partition.clone(), ..requests[number].clone() };
            asked.extend(numbers.iter().map(change));
            let places = vec![Some(Place::of(&own)); asked.len()];
            let waits = self.waits(&rest, &asked, &places);
            stays[place] = waits[0];
            for (number, wait) in numbers.into_iter().zip(&waits[1..]) {
                options[number].in_place = *wait;
            }
        }
        Outlook { job: inquiry.job, stays, races: inquiry.races, options }
    }

    /// Returns how long each request would wait, on average.
    fn waits(
        &self,
        snapshot: &Snapshot,
        requests: &[Request],
        places: &[Option<Place>],
    ) -> Vec<Option<Seconds>> {
        let question = Question { snapshot, requests, seed: 0, samples: SAMPLES, calibration: None };
        let wait = |outlook: Foretold| match outlook {
            Foretold::Estimated(own) => Some(own.start.mean),
            Foretold::Unknown(_) | Foretold::Never => None,
        };
        forecast_at(&question, places, self.stop).into_iter().map(wait).collect()
    }

    /// Returns the job that the request will be which is done first: those after it find it in the queue.
    fn likely(&self, outlook: &Outlook, snapshot: &Snapshot) -> Option<QueueJob> {
        let finish = |number: &usize| {
            let (known, own) = (&outlook.options[*number], &self.inquiry.options[*number]);
            known.anew.map_or(f64::INFINITY, |wait| wait.0 + own.run.0)
        };
        let best = (0..outlook.options.len()).min_by(|a, b| finish(a).total_cmp(&finish(b)))?;
        let own = &self.inquiry.options[best];
        let request = self.request(snapshot, (&own.kind, own.run, own.limit));
        let standing = snapshot.standing(request.account.as_deref());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "priorities are 32 bits wide"
        )]
        let priority = standing.priority.max(0.0) as u64;
        finish(&best).is_finite().then(|| QueueJob {
            id: format!("of {}", self.inquiry.rest.name),
            ours: true,
            account: request.account,
            partitions: request.partition.into_iter().collect(),
            priority: Some(priority),
            submitted: Some(snapshot.taken_at),
            limit_s: Some(request.limit),
            asks: request.asks,
            tasks: 1,
            ..QueueJob::default()
        })
    }

    /// Returns the partition that a request would start in: of several the first that allows its limit.
    fn partition(&self, snapshot: &Snapshot, limit: Seconds) -> Option<String> {
        let (own, defaults) = (&self.inquiry.rest.launch.partition, &self.context.settings.jobs.partition);
        let names: Vec<&str> = own.as_ref().or(defaults.as_ref())?.split(',').map(str::trim).collect();
        let allows = |name: &&&str| {
            let known = snapshot.partitions.iter().find(|own| own.name == **name);
            known.is_none_or(|own| own.max_time_s.is_none_or(|longest| longest >= limit))
        };
        names.iter().find(allows).or(names.first()).map(|name| (*name).to_owned())
    }

    fn request(&self, snapshot: &Snapshot, (kind, run, limit): (&Kind, Seconds, Seconds)) -> Request {
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
            partition: self.partition(snapshot, limit),
            account: job.launch.account.clone().or_else(|| defaults.account.clone()),
            limit,
            run: Seconds(run.0.min(limit.0)),
        }
    }
}

/// Returns a pending job of the queue and the queue without it; `None` where it is not there or waits for something else than room.
fn without(snapshot: &Snapshot, id: JobId) -> Option<(QueueJob, Snapshot)> {
    let id = id.to_string();
    let waits = |job: &&QueueJob| job.id == id && job.running.is_none() && !job.waits_for_other;
    let own = snapshot.jobs.iter().find(waits)?.clone();
    let jobs = snapshot.jobs.iter().filter(|job| job.id != id).cloned().collect();
    Some((own, Snapshot { jobs, ..snapshot.clone() }))
}

/// Returns the request that a pending job is.
fn as_it_is(own: &QueueJob, snapshot: &Snapshot) -> Request {
    let limit = own.limit_s.unwrap_or_else(|| snapshot.longest_limit(own));
    Request {
        asks: own.asks.clone(),
        partition: own.partitions.first().cloned(),
        account: own.account.clone(),
        limit,
        run: limit,
    }
}
