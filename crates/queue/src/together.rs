//! Chooses requests for several jobs together, each with the chosen requests of the others in the queue:
//! greatest regret first, then swaps, then savings.

use std::cell::Cell;

use crate::estimate::{Calibration, Estimate, mean};
use crate::forecast::QueueTable;
use crate::future::Future;
use crate::node_timeline::Viewer;
use crate::others::Others;
use crate::play::{HORIZON, Ours, RequestEntry, play};
use crate::{Request, RequestId, Snapshot};
use hsched_model::{Candidate, Seconds, choose};

/// Jobs whose requests are chosen together.
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    pub snapshot: &'a Snapshot,
    /// The requests of each job; ids are unique within a job.
    pub options: &'a [Vec<Offer>],
    /// The value of a unit of cost in hours; with 0, the cheapest of the almost equally early requests is
    /// chosen.
    pub cost_weight: f64,
    pub seed: u64,
    pub samples: usize,
    pub calibration: Option<Calibration>,
}

/// A request of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    pub request: Request,
    /// Seconds from the end of the request's run to the end of the training: the time of further pieces.
    pub rest: f64,
    /// The request's cost in billing units; `None` if unknown.
    pub cost: Option<f64>,
}

/// The choice for a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobChoice {
    pub id: RequestId,
    pub start: Estimate,
    pub finish: Estimate,
    /// The request's start in each future that time allowed, with all other choices in the queue.
    pub starts: Vec<Seconds>,
}

/// Returns a request for each job; `None` if none of its requests can ever start, if other users' jobs are
/// hidden, or if the time did not suffice for a single future.
///
/// `stop` returns whether time has run out; jobs without a choice by then get the best request known so far,
/// or else any that can start, and the estimates come from the first future alone if the time does not
/// suffice for all.
pub fn choose_together(jobs: &Jobs, stop: &dyn Fn() -> bool) -> Vec<Option<JobChoice>> {
    if jobs.snapshot.others_hidden {
        return vec![None; jobs.options.len()];
    }
    let (table, first) = table(jobs);
    let mut search = JointSearch::new(jobs, &table, first);
    search.by_regret(stop);
    search.swap(stop);
    if jobs.cost_weight == 0.0 {
        search.save(stop);
    }
    search.chosen(stop)
}

/// Maximum number of times that the simulation of the first future asks whether to stop after the time has run
/// out.
const PATIENCE: u32 = 512;

struct JointSearch<'a> {
    jobs: &'a Jobs<'a>,
    table: &'a QueueTable,
    drawn: Vec<DrawnFuture<'a>>,
    /// Index of each job's first request in the table.
    first: Vec<usize>,
    /// The request chosen for each job.
    choice: Vec<Option<usize>>,
}

/// A future, with the other jobs in it.
struct DrawnFuture<'a> {
    future: Future,
    others: Option<Others<'a>>,
}

/// Seconds from now to the end of each job of a part in every future, with the value of the request's cost.
type Finishes = Vec<(usize, Vec<f64>)>;

/// Returns the queue with all requests, and the index of each job's first one.
fn table(jobs: &Jobs) -> (QueueTable, Vec<usize>) {
    let all: Vec<Request> = jobs.options.iter().flatten().map(|offer| offer.request.clone()).collect();
    let mut table = QueueTable::new(jobs.snapshot, &all);
    let (mut first, mut next) = (Vec::new(), 0);
    for (job, offers) in jobs.options.iter().enumerate() {
        first.push(next);
        for entry in table.entries[next..next + offers.len()].iter_mut().flatten() {
            entry.1.job = job;
        }
        next += offers.len();
    }
    (table, first)
}

impl<'a> JointSearch<'a> {
    fn new(jobs: &'a Jobs<'a>, table: &'a QueueTable, first: Vec<usize>) -> Self {
        let draw = |sample: usize| {
            let future = Future::of(&table.model, jobs.seed.wrapping_add(sample as u64));
            DrawnFuture { others: Others::new(&table.model, &future), future }
        };
        let drawn = (0..jobs.samples).map(draw).collect();
        Self { jobs, table, drawn, first, choice: vec![None; jobs.options.len()] }
    }

    /// Returns the time that a request adds to the time to its end, in seconds: further pieces, and the value
    /// of its cost.
    fn extra(&self, job: usize, option: usize) -> f64 {
        let offer = &self.jobs.options[job][option];
        offer.rest + self.jobs.cost_weight * 3600.0 * offer.cost.unwrap_or(0.0)
    }

    fn entry(&self, job: usize, option: usize) -> Option<(usize, RequestEntry)> {
        self.table.entries[self.first[job] + option]
    }

    /// Returns the times to the end of a part's jobs with these requests, by job; `None` if stopped.
    fn finishes(
        &mut self,
        part: usize,
        choice: &[Option<usize>],
        stop: &dyn Fn() -> bool,
    ) -> Option<Finishes> {
        let entry_of = |job: usize| {
            let option = choice[job]?;
            let (in_part, entry) = self.entry(job, option)?;
            (in_part == part).then_some((job, option, entry))
        };
        let there: Vec<(usize, usize, RequestEntry)> = (0..choice.len()).filter_map(entry_of).collect();
        let entries: Vec<RequestEntry> = there.iter().map(|(_, _, entry)| *entry).collect();
        let mut finishes: Finishes = there.iter().map(|(job, ..)| (*job, Vec::new())).collect();
        for sample in 0..self.drawn.len() {
            let DrawnFuture { future, others } = &mut self.drawn[sample];
            let ours = Ours { entries: &entries, viewer: Viewer::Member };
            let starts = play(&self.table.model, part, future, others.as_mut(), ours, stop)?;
            for ((start, list), (job, option, entry)) in starts.iter().zip(&mut finishes).zip(&there) {
                let start = start.map_or(HORIZON, |at| at - self.table.model.now);
                list.1.push(start + entry.run + self.extra(*job, *option));
            }
        }
        Some(finishes)
    }

    /// Returns the sum of the mean times to the end in a part.
    fn cost(&mut self, part: usize, choice: &[Option<usize>], stop: &dyn Fn() -> bool) -> Option<f64> {
        let finishes = self.finishes(part, choice, stop)?;
        Some(finishes.iter().filter_map(|(_, list)| mean(list)).sum())
    }

    /// Returns the time that each request of a job adds to all times to the end, given the choices so
    /// far; the smallest first.
    fn additions(&mut self, job: usize, stop: &dyn Fn() -> bool) -> Option<Vec<(f64, usize)>> {
        let mut list = Vec::new();
        let mut before: Vec<Option<f64>> = vec![None; self.table.model.parts.len()];
        for option in 0..self.jobs.options[job].len() {
            let Some((part, _)) = self.entry(job, option) else { continue };
            let without = match before[part] {
                Some(known) => known,
                None => *before[part].insert(self.cost(part, &self.choice.clone(), stop)?),
            };
            let mut choice = self.choice.clone();
            choice[job] = Some(option);
            list.push((self.cost(part, &choice, stop)? - without, option));
        }
        list.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Some(list)
    }

    /// Chooses for one job after another, each time for the job that loses most without its best request.
    fn by_regret(&mut self, stop: &dyn Fn() -> bool) {
        let mut left: Vec<usize> = (0..self.jobs.options.len()).collect();
        let mut known: Vec<Option<Vec<(f64, usize)>>> =
            left.iter().map(|&job| self.additions(job, stop)).collect();
        while !left.is_empty() {
            let regret = |job: usize| match known[job].as_deref() {
                Some([best, second, ..]) => second.0 - best.0,
                _ => 0.0,
            };
            let Some(place) = (0..left.len())
                .max_by(|&a, &b| regret(left[a]).total_cmp(&regret(left[b])).then(left[b].cmp(&left[a])))
            else {
                break;
            };
            let job = left.remove(place);
            let best = known[job].as_ref().and_then(|list| list.first().map(|(_, option)| *option));
            let any = || (0..self.jobs.options[job].len()).find(|&option| self.entry(job, option).is_some());
            self.choice[job] = best.or_else(any);
            let changed = self.choice[job].and_then(|option| self.entry(job, option)).map(|(part, _)| part);
            for &other in &left {
                // Other parts are unaffected.
                let meets = (0..self.jobs.options[other].len())
                    .any(|option| self.entry(other, option).map(|(part, _)| part) == changed);
                if meets && let Some(list) = self.additions(other, stop) {
                    known[other] = Some(list);
                }
            }
        }
    }

    /// Changes the requests of single jobs as long as that improves the total.
    fn swap(&mut self, stop: &dyn Fn() -> bool) {
        let mut better = true;
        while better && !stop() {
            better = false;
            for job in 0..self.choice.len() {
                let Some(chosen) = self.choice[job] else { continue };
                let Some(list) = self.instead(job, stop) else { return };
                let now = list
                    .iter()
                    .find(|(_, option)| *option == chosen)
                    .map_or(f64::INFINITY, |(cost, _)| *cost);
                // Less than a second does not count as a gain, because it could cause a cycle.
                if let Some((cost, option)) = list.first()
                    && *cost < now - 1.0
                {
                    self.choice[job] = Some(*option);
                    better = true;
                }
            }
        }
    }

    /// Gives single jobs the cheapest of the requests with which the total is almost as early.
    fn save(&mut self, stop: &dyn Fn() -> bool) {
        for job in 0..self.choice.len() {
            if self.choice[job].is_none() {
                continue;
            }
            let Some(list) = self.instead(job, stop) else { return };
            let options = &self.jobs.options[job];
            let candidate = |&(finish, option): &(f64, usize)| {
                let Offer { request, cost, .. } = &options[option];
                Candidate { id: request.id, finish, cost: *cost }
            };
            let candidates: Vec<Candidate> = list.iter().map(candidate).collect();
            if let Some(cheapest) = choose(&candidates, 0.0) {
                self.choice[job] = options.iter().position(|offer| offer.request.id == cheapest.id);
            }
        }
    }

    /// Returns the time that each request of a job adds if it replaces the chosen one; the smallest first.
    fn instead(&mut self, job: usize, stop: &dyn Fn() -> bool) -> Option<Vec<(f64, usize)>> {
        let before = self.choice[job].take();
        let list = self.additions(job, stop);
        self.choice[job] = before;
        list
    }

    /// Returns the choices, with their starts in every future; after `stop`, with those of the first future alone.
    fn chosen(&mut self, stop: &dyn Fn() -> bool) -> Vec<Option<JobChoice>> {
        let choice = self.choice.clone();
        let mut chosen = vec![None; choice.len()];
        for part in 0..self.table.model.parts.len() {
            let is_here = |(job, option): (usize, &Option<usize>)| {
                option.and_then(|option| self.entry(job, option)).is_some_and(|(known, _)| known == part)
            };
            if !choice.iter().enumerate().any(is_here) {
                continue;
            }
            let all = if stop() { None } else { self.finishes(part, &choice, stop) };
            let finishes = all.or_else(|| {
                // One future is worth a little more time, but a request far behind others may take minutes.
                let asked = Cell::new(0);
                let is_out = || asked.replace(asked.get() + 1) >= PATIENCE;
                self.drawn.truncate(1);
                self.finishes(part, &choice, &is_out)
            });
            for (job, list) in finishes.into_iter().flatten() {
                chosen[job] = self.chosen_with(job, &list);
            }
        }
        chosen
    }

    /// Returns a job's choice, given the times to the end of its training by future.
    fn chosen_with(&self, job: usize, finishes: &[f64]) -> Option<JobChoice> {
        let option = self.choice[job]?;
        let (_, entry) = self.entry(job, option)?;
        let extra = entry.run + self.extra(job, option);
        let starts: Vec<f64> = finishes.iter().map(|finish| finish - extra).collect();
        let finish: Vec<f64> = starts.iter().map(|start| start + entry.run).collect();
        Some(JobChoice {
            id: self.jobs.options[job][option].request.id,
            start: Estimate::of(&starts, self.jobs.calibration),
            finish: Estimate::of(&finish, self.jobs.calibration),
            starts: starts.into_iter().map(Seconds).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_request::test_request;

    /// Returns the number of futures behind the choice of each of two jobs.
    fn futures(stop: bool) -> Vec<usize> {
        let gpus = json!([{ "type": "a100", "count": 4 }]);
        let queue = json!({ "schema": "hsched.queue/1", "taken_at": 1e6, "jobs": [],
            "nodes": [{ "name": "n1", "gpus": gpus }] });
        let snapshot = Snapshot::parse(&queue.to_string()).expect("a snapshot");
        let offer = Offer { request: test_request(1, "a100", 4), rest: 0.0, cost: None };
        let options = [vec![offer.clone()], vec![offer]];
        let jobs = Jobs {
            snapshot: &snapshot,
            options: &options,
            cost_weight: 0.0,
            seed: 1,
            samples: 5,
            calibration: None,
        };
        let chosen = choose_together(&jobs, &|| stop);
        chosen.into_iter().map(|choice| choice.expect("a choice").starts.len()).collect()
    }

    #[test]
    fn one_future_suffices_for_the_estimates_after_the_time_has_run_out() {
        assert_eq!([futures(false), futures(true)], [[5, 5], [1, 1]]);
    }
}
