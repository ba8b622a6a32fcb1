//! Upper bounds on the utilities of the remaining jobs of one taste, by which hopeless choices are skipped.

use crate::hadar::find::Market;
use crate::hadar::job::HadarJob;
use crate::hadar::menu::Menu;

/// For each job of a taste, upper bounds over this job and all later ones.
pub(super) struct GainBounds {
    /// Indices of the jobs in the queue, in order.
    jobs: Vec<usize>,
    /// Number of processed jobs, which is the index of the next one in `jobs`.
    turn: usize,
    /// By pace of the menu, then by job: the utility of this pace after a restart.
    worth: Vec<Vec<f64>>,
    /// The same: the maximum utility over this job and all later ones.
    most: Vec<Vec<f64>>,
    /// By pace and other pace, then by job: the maximum difference of their utilities; computed on demand.
    lead: Vec<Vec<Option<Vec<f64>>>>,
}

impl GainBounds {
    pub(super) fn new(jobs: Vec<usize>) -> Self {
        Self { jobs, turn: 0, worth: Vec::new(), most: Vec::new(), lead: Vec::new() }
    }

    /// Adds the new paces of the menu.
    pub(super) fn learn(&mut self, market: &Market<'_>, queue: &[HadarJob], menu: &Menu) {
        for pace in &menu.paces[self.worth.len()..] {
            let worth = |&place: &usize| {
                let job = &queue[place];
                market.worth(job, pace.speed(job, &menu.taste), job.restart).1
            };
            let worth: Vec<f64> = self.jobs.iter().map(worth).collect();
            self.most.push(most_from(worth.iter().copied()));
            self.worth.push(worth);
            self.lead.push(Vec::new());
        }
    }

    /// Advances to the next job.
    pub(super) fn go_on(&mut self) {
        self.turn += 1;
    }

    /// Returns the maximum utility of a pace for the remaining jobs.
    pub(super) fn most(&self, pace: u32) -> f64 {
        self.most[pace as usize][self.turn]
    }

    /// Returns the maximum difference between the utilities of two paces for one of the remaining jobs.
    pub(super) fn lead(&mut self, pace: u32, other: u32) -> f64 {
        let (pace, other) = (pace as usize, other as usize);
        let row = &mut self.lead[pace];
        if row.len() <= other {
            row.resize(other + 1, None);
        }
        let pairs = || self.worth[pace].iter().zip(&self.worth[other]);
        row[other].get_or_insert_with(|| most_from(pairs().map(|(pair, other)| pair - other)))[self.turn]
    }
}

/// Returns the suffix maxima of some numbers.
fn most_from(numbers: impl DoubleEndedIterator<Item = f64>) -> Vec<f64> {
    let mut most = f64::NEG_INFINITY;
    let mut all: Vec<f64> = numbers
        .rev()
        .map(|number| {
            most = most.max(number);
            most
        })
        .collect();
    all.reverse();
    all
}
