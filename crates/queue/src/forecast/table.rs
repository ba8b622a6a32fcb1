//! The jobs and requests of a forecast, each in its part of the queue.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::{FEW_OF, THREADS};
use crate::future::Future;
use crate::line::{Joins, LineKey, PendingEntry, WITHOUT_ID};
use crate::node_timeline::Viewer;
use crate::others::Others;
use crate::play::{HORIZON, Ours, RequestEntry, play};
use crate::queue_model::{NumberedRequest, QueueModel};
use crate::{QueuePosition, Request, RequestId, Snapshot};

/// The queue with the requests, prepared for repeated simulation.
#[derive(Clone, Debug)]
pub(crate) struct QueueTable {
    pub model: QueueModel,
    /// The part of the queue and the entry of each request; `None` if the request can never start.
    pub entries: Vec<Option<(usize, RequestEntry)>>,
}

impl QueueTable {
    pub(crate) fn new(snapshot: &Snapshot, requests: &[Request]) -> Self {
        Self::placed(snapshot, requests, &[])
    }

    /// Returns the table if some requests already have a position in the queue.
    pub(crate) fn placed(
        snapshot: &Snapshot,
        requests: &[Request],
        positions: &[(RequestId, QueuePosition)],
    ) -> Self {
        let model = QueueModel::new(snapshot, requests);
        let entries = (0_u32..).zip(requests).zip(&model.requests);
        let entries = entries.map(|((number, request), known)| {
            let NumberedRequest { part, shape, rule } = (*known)?;
            let estimate = snapshot.priority_of(request);
            let partitions: Vec<String> = request.partition.iter().cloned().collect();
            let key = LineKey {
                tier: snapshot.tier(&partitions),
                priority: estimate.priority,
                submitted: model.now,
                // After all pending jobs, and before all arriving ones.
                order: WITHOUT_ID + number,
            };
            let key = match positions.iter().find(|(id, _)| *id == request.id) {
                Some((_, QueuePosition { priority, submitted, order })) => {
                    LineKey { priority: *priority, submitted: submitted.0, order: *order, ..key }
                }
                None => key,
            };
            let entry = RequestEntry {
                key,
                shape,
                limit: request.limit.0,
                run: request.run.0.min(request.limit.0),
                job: number as usize,
                branch: model
                    .ranks
                    .as_ref()
                    .and_then(|ranks| ranks.shares.branch_of(None, request.account.as_deref())),
                rule,
                begin: request.further.begin.map_or(f64::NEG_INFINITY, |begin| begin.0),
            };
            Some((part, entry))
        });
        let entries = entries.collect();
        Self { model, entries }
    }

    /// Returns how many seconds after the snapshot some requests of a part start, each alone in a future; the
    /// horizon if they do not start earlier. `None` if stopped.
    fn starts_alone(
        &self,
        part: usize,
        entries: &[RequestEntry],
        future: &Future,
        others: Option<&mut Others>,
        stop: &dyn Fn() -> bool,
    ) -> Option<Vec<f64>> {
        let starts = play(&self.model, part, future, others, Ours { entries, viewer: Viewer::Guest }, stop)?;
        let after = |at: f64| (at - self.model.now).min(HORIZON);
        Some(starts.into_iter().map(|start| start.map_or(HORIZON, after)).collect())
    }

    /// Returns requests by part, in groups that can be simulated together; separate simulations would be as
    /// exact, but proportionally slower.
    fn groups(&self, meant: &[bool]) -> Vec<(usize, Vec<usize>)> {
        let mut groups: Vec<(usize, Vec<usize>, u32)> = Vec::new();
        for (number, known) in self.entries.iter().enumerate().filter(|(number, _)| meant[*number]) {
            let Some((part, entry)) = known else { continue };
            let nodes = self.model.shapes[entry.shape].nodes;
            let most = if self.model.rules.backfill { self.model.parts[*part].nodes / FEW_OF } else { 0 };
            let fitting = |group: &&mut (usize, Vec<usize>, u32)| {
                group.0 == *part && group.2.saturating_add(nodes) <= most
            };
            match groups.iter_mut().find(fitting) {
                Some(group) => {
                    group.1.push(number);
                    group.2 += nodes;
                }
                None => groups.push((*part, vec![number], nodes)),
            }
        }
        groups.into_iter().map(|(part, list, _)| (part, list)).collect()
    }
}

impl QueueTable {
    /// Returns the pending jobs that compete now and may use a node which could hold an entry, in order; of a
    /// job in several partitions, only the first entry.
    pub(crate) fn rivals(&self, part: usize, entry: &RequestEntry) -> impl Iterator<Item = &PendingEntry> {
        let rivals = &self.model.rivals;
        let group = rivals[entry.shape];
        let nodes: BTreeSet<u32> = self.model.nodes_of(entry.shape).collect();
        let mut known: BTreeMap<usize, bool> = BTreeMap::new();
        let mut meets = move |shape: usize| {
            let on_same = || self.model.nodes_of(shape).any(|node| nodes.contains(&node));
            // The group is not sufficient: it also contains rivals of rivals, which may have no node in common
            // with the entry.
            rivals[shape] == group && *known.entry(shape).or_insert_with(on_same)
        };
        let mut several = BTreeSet::new();
        let waiting = self.model.parts[part].waiting.iter().filter(|job| job.joins == Joins::Now);
        let competing = waiting.filter(move |job| meets(job.shape));
        // Entries of a job in several partitions count as one.
        competing.filter(move |job| job.job.is_none_or(|number| several.insert(number)))
    }

    /// Returns the pending jobs that compete with an entry and are scheduled before it, in order.
    pub(crate) fn before(&self, part: usize, entry: &RequestEntry) -> impl Iterator<Item = &PendingEntry> {
        let key = entry.key;
        self.rivals(part, entry).take_while(move |job| job.key.cmp(&key) != Ordering::Greater)
    }

    /// Returns the number of pending jobs that compete with an entry and are scheduled before it.
    pub(crate) fn ahead(&self, part: usize, entry: &RequestEntry) -> usize {
        self.before(part, entry).count()
    }

    pub(crate) fn at_limits(&self) -> Vec<Option<f64>> {
        let mut list = vec![None; self.entries.len()];
        for (part, group) in self.groups(&vec![true; list.len()]) {
            let starts =
                self.starts_alone(part, &self.entries_of(&group), &Future::at_limits(), None, &|| false);
            for (number, start) in group.into_iter().zip(starts.into_iter().flatten()) {
                list[number] = Some(start);
            }
        }
        list
    }

    /// Returns the entries of some requests.
    fn entries_of(&self, group: &[usize]) -> Vec<RequestEntry> {
        group.iter().filter_map(|&number| self.entries[number].map(|(_, entry)| entry)).collect()
    }

    /// Simulates each selected request in the futures of some seeds, several in parallel; returns the leading
    /// futures that were finished in time, each with the requests and their starts.
    pub(crate) fn samples(
        &self,
        seeds: &[u64],
        meant: &[bool],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Vec<(usize, f64)>> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new(BTreeMap::new());
        let work = || {
            while let Some(seed) = seeds.get(next.fetch_add(1, Relaxed)) {
                let Some(starts) = self.sample(*seed, meant, stop) else { break };
                found.lock().unwrap_or_else(PoisonError::into_inner).insert(*seed, starts);
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(seeds.len());
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        seeds.iter().map_while(|seed| found.remove(seed)).collect()
    }

    /// Simulates each selected request in one future; `None` if there was no time for all.
    pub(crate) fn sample(
        &self,
        seed: u64,
        meant: &[bool],
        stop: &dyn Fn() -> bool,
    ) -> Option<Vec<(usize, f64)>> {
        let future = Future::of(&self.model, seed);
        let mut others = Others::new(&self.model, &future);
        let mut starts = Vec::new();
        for (part, group) in self.groups(meant) {
            let entries = self.entries_of(&group);
            let found = self.starts_alone(part, &entries, &future, others.as_mut(), stop)?;
            starts.extend(group.into_iter().zip(found));
        }
        Some(starts)
    }
}
