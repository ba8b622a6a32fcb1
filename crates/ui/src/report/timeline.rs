//! The assignment of individual GPUs: jobs hold numbers of GPUs of a type on a node, while a chart has a row
//! for each GPU.

use std::collections::BTreeMap;

use super::data::{ReportGpu, Span};

/// A period in which a job holds GPUs.
#[derive(Clone, Debug)]
pub struct GpuHolding {
    pub job: usize,
    pub start: f64,
    /// The start of training, after a restart.
    pub work: f64,
    pub end: f64,
    /// Node, type and number of the job's GPUs.
    pub gpus: Vec<(String, String, u32)>,
}

/// The GPUs of a report, by node and type.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// How many seconds late the end of a job may be recorded.
    late: f64,
    gpus: Vec<ReportGpu>,
    /// Indices of the GPUs of each node and type.
    places: BTreeMap<(String, String), Vec<usize>>,
}

impl Timeline {
    /// Returns a timeline of jobs whose ends are recorded up to `late` seconds late.
    pub fn of_seen(late: f64) -> Self {
        Self { late, ..Self::default() }
    }

    /// Adds GPUs of a type on a node, up to the given number.
    pub fn add(&mut self, node: &str, gpu_type: &str, count: u32) {
        let places = self.places.entry((node.to_owned(), gpu_type.to_owned())).or_default();
        for index in u32::try_from(places.len()).unwrap_or(u32::MAX)..count {
            places.push(self.gpus.len());
            self.gpus.push(ReportGpu { node: node.to_owned(), gpu_type: gpu_type.to_owned(), index });
        }
    }

    /// Returns the GPUs in the order in which they were added.
    pub fn gpus(&self) -> &[ReportGpu] {
        &self.gpus
    }

    /// Assigns individual GPUs to periods: those that the job had before, or else the lowest free ones; if
    /// too few are free, those that become free first. Adds unknown GPUs in the order of node names.
    pub fn spans(&mut self, mut held: Vec<GpuHolding>) -> Vec<Span> {
        held.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.job.cmp(&b.job)));
        for ((node, gpu_type), count) in most_held(&held, self.late) {
            self.add(&node, &gpu_type, count);
        }
        // For each GPU: the time when it becomes free, and the last job that used it.
        let mut users: Vec<(f64, usize)> = vec![(f64::NEG_INFINITY, usize::MAX); self.gpus.len()];
        let mut spans = Vec::with_capacity(held.len());
        for GpuHolding { job, start, work, end, gpus } in held {
            let mut placed = Vec::new();
            for key_and_count in gpus {
                let (node, gpu_type, count) = key_and_count;
                let Some(places) = self.places.get(&(node, gpu_type)) else { continue };
                let mut order = places.clone();
                let slack = 1e-9 * start.abs();
                order.sort_by(|&a, &b| {
                    let key = |place: usize| {
                        let (free, user) = users[place];
                        let is_late = free > start + slack;
                        (if is_late { free } else { f64::NEG_INFINITY }, user != job, place)
                    };
                    let (a, b) = (key(a), key(b));
                    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2))
                });
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                for place in order.into_iter().take(count) {
                    users[place] = (end, job);
                    placed.push(place);
                }
            }
            placed.sort_unstable();
            spans.push(Span { job, start, work: work.clamp(start, end.max(start)), end, gpus: placed });
        }
        spans
    }
}

/// Returns the maximum number of GPUs of each node and type that are held at once.
fn most_held(held: &[GpuHolding], late: f64) -> BTreeMap<(String, String), u32> {
    let mut changes: BTreeMap<(String, String), Vec<(f64, i64)>> = BTreeMap::new();
    for holding in held {
        let end = (holding.end - late).max(f64::midpoint(holding.start, holding.end));
        for (node, gpu_type, count) in &holding.gpus {
            let list = changes.entry((node.clone(), gpu_type.clone())).or_default();
            list.extend([(holding.start, i64::from(*count)), (end, -i64::from(*count))]);
        }
    }
    let most = |mut list: Vec<(f64, i64)>| {
        // At equal times, leaving jobs come before arriving ones.
        list.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let counts = list.into_iter().scan(0, |count, (_, change)| {
            *count += change;
            Some(*count)
        });
        u32::try_from(counts.max().unwrap_or(0)).unwrap_or(0)
    };
    changes.into_iter().map(|(key, list)| (key, most(list))).collect()
}

/// Groups GPUs in adjacent rows: the first of each group, and the size of the group.
pub(super) fn rows(gpus: &[usize]) -> Vec<(usize, usize)> {
    let mut rows: Vec<(usize, usize)> = Vec::new();
    for &gpu in gpus {
        match rows.last_mut() {
            Some((first, count)) if *first + *count == gpu => *count += 1,
            _ => rows.push((gpu, 1)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(job: usize, (start, end): (f64, f64), count: u32) -> GpuHolding {
        GpuHolding { job, start, work: start, end, gpus: vec![("n".to_owned(), "t4".to_owned(), count)] }
    }

    #[test]
    fn no_gpu_is_held_by_two_jobs_at_once() {
        let mut timeline = Timeline::default();
        timeline.add("n", "t4", 4);
        let spans = timeline.spans(vec![
            held(2, (5.0, 9.0), 1),
            held(0, (0.0, 4.0), 2),
            held(1, (2.0, 8.0), 1),
            held(0, (4.0, 6.0), 2),
        ]);
        let gpus: Vec<_> = spans.iter().map(|span| span.gpus.clone()).collect();
        assert_eq!(gpus, [vec![0, 1], vec![2], vec![0, 1], vec![3]]);
    }

    #[test]
    fn gpus_that_nobody_named_are_added_as_many_as_are_held_at_once() {
        let mut timeline = Timeline::default();
        timeline.spans(vec![held(0, (0.0, 2.0), 2), held(1, (1.0, 3.0), 1), held(2, (2.0, 4.0), 2)]);
        assert_eq!(timeline.gpus().len(), 3);
        let mut timeline = Timeline::of_seen(60.0);
        timeline.spans(vec![held(0, (0.0, 500.0), 1), held(1, (470.0, 900.0), 1)]);
        assert_eq!(timeline.gpus().len(), 1);
    }
}
