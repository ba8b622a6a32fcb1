//! Fair share in one future: simulates all parts of the queue without our requests and accumulates the usage.

use crate::future::Future;
use crate::node_timeline::Viewer;
use crate::play::{Ours, QueuePlay};
use crate::queue_model::QueueModel;
use crate::ranks::Ranks;

/// Interval for recomputing ranks, in seconds.
const PERIOD: f64 = 900.0;

/// The other jobs in one future, simulated on demand.
pub(super) struct Others<'a> {
    ranks: &'a Ranks,
    plays: Vec<QueuePlay<'a>>,
    now: f64,
    /// Usage of each branch at the time of the snapshot and since then, with decay.
    usage: Vec<f64>,
    /// Usage in the simulations at the last update, by simulation and branch.
    counted: Vec<Vec<f64>>,
    /// Changes of each branch's priorities since the snapshot, each from a given time on.
    changes: Vec<(f64, Vec<f64>)>,
}

impl<'a> Others<'a> {
    /// Returns the other jobs in one future; `None` if the shares are unknown.
    pub(super) fn new(model: &'a QueueModel, future: &Future) -> Option<Self> {
        let ranks = model.ranks.as_ref()?;
        let begin = |part| {
            let mut play = QueuePlay::new(model, part, future, Ours { entries: &[], viewer: Viewer::Member });
            play.step(model.now);
            play
        };
        let plays: Vec<QueuePlay> = model.parts.iter().map(begin).collect();
        Some(Self {
            counted: vec![vec![0.0; ranks.adds.len()]; plays.len()],
            usage: ranks.shares.usage(),
            plays,
            ranks,
            now: model.now,
            changes: Vec::new(),
        })
    }

    /// Returns the changes of each branch's priorities at a given time, unless they are already `known`,
    /// which is updated.
    pub(super) fn shifts(&mut self, at: f64, known: &mut usize) -> Option<&[f64]> {
        while self.now + PERIOD <= at {
            self.advance();
        }
        let number = self.changes.partition_point(|(from, _)| *from <= at);
        if number == *known {
            return None;
        }
        *known = number;
        Some(&self.changes[number - 1].1)
    }

    /// Simulates one period and recomputes ranks.
    fn advance(&mut self) {
        let until = self.now + PERIOD;
        for play in &mut self.plays {
            while let Some(next) = play.next_pass().filter(|next| *next <= until) {
                play.step(next);
            }
        }
        let shares = &self.ranks.shares;
        if let Some(half_life) = shares.half_life_s {
            let left = 0.5_f64.powf(PERIOD / half_life.0.max(1.0));
            self.usage.iter_mut().for_each(|used| *used *= left);
        }
        for (play, counted) in self.plays.iter().zip(&mut self.counted) {
            for (branch, before) in counted.iter_mut().enumerate() {
                let used = play.used(branch, until);
                if used > *before {
                    shares.add(&mut self.usage, branch, used - *before);
                    *before = used;
                }
            }
        }
        self.now = until;
        let adds = shares.factors(&self.usage).into_iter().map(|factor| shares.weight * factor);
        let shifts: Vec<f64> = adds.zip(&self.ranks.adds).map(|(add, first)| add - first).collect();
        let last = self.changes.last().map(|(_, last)| last);
        if last.map_or_else(|| shifts.iter().any(|shift| *shift != 0.0), |last| *last != shifts) {
            for play in &mut self.plays {
                play.line_up(&shifts);
            }
            self.changes.push((until, shifts));
        }
    }
}
