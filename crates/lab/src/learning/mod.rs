//! Trains the network of `mlf-rl` on replays of traces: first to imitate MLF-H, then by the results of its
//! own choices.
//!
//! The training is single-threaded and seeded and sums in a fixed order, so equal arguments give the same
//! network everywhere.

mod goal;
mod gradient;
mod play;

use std::sync::Arc;

use crate::mlfs::{Adam, Chooser, FEATURES, Net, RecordedChoice};
use crate::replay::{ReplayError, Trace};
use hsched_model::number::to_f64;

pub use self::goal::ScheduleScore;
pub use self::play::of_policy;
use self::play::score;

/// Parameters of the training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetTraining {
    pub seed: u64,
    /// Number of passes over the traces to imitate MLF-H.
    pub imitations: u32,
    /// Number of passes with the network's own choices.
    pub passes: u32,
    /// Number of runs of a trace that are compared with each other.
    pub runs: u32,
    /// The learning rate of Adam in both parts.
    pub rate: f64,
    /// Weight of the entropy bonus, which keeps choices open.
    pub bonus: f64,
    /// η, the discount factor of later rewards.
    pub factor: f64,
}

/// The results of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingResult {
    /// The best network on the held-out traces.
    pub net: Net,
    /// The scores on the held-out traces of the network that imitates MLF-H, and of the best one.
    pub imitated: ScheduleScore,
    pub best: ScheduleScore,
    /// The pass that gave the best network; 0 means the imitation.
    pub pass: u32,
}

/// Sizes of the hidden layers.
const HIDDEN: [usize; 2] = [32, 16];

impl Default for NetTraining {
    /// Returns the defaults of `hsched train-policy`.
    fn default() -> Self {
        Self { seed: 0, imitations: 20, passes: 10, runs: 8, rate: 0.004, bonus: 0.01, factor: 0.95 }
    }
}

/// Trains a network; calls `said` with the scores on the held-out traces after the imitation (as pass 0) and
/// after each pass.
///
/// # Errors
/// If a trace cannot be replayed.
pub fn train(
    traces: &[Trace],
    held_out: &[Trace],
    training: &NetTraining,
    said: &mut dyn FnMut(u32, ScheduleScore),
) -> Result<TrainingResult, ReplayError> {
    let sizes = [&[FEATURES.len()], &HIDDEN[..], &[1]].concat();
    let mut net = Net::random(&sizes, training.seed);
    imitate(&mut net, traces, training)?;
    let on_held_out = |net: &Net| score(held_out, || Chooser::Likeliest(Arc::new(net.clone())));
    let imitated = on_held_out(&net)?;
    said(0, imitated);
    let mut found = TrainingResult { net: net.clone(), imitated, best: imitated, pass: 0 };
    let mut adam = Adam::new(&net, training.rate);
    for pass in 1..=training.passes {
        for (number, trace) in (0..).zip(traces) {
            let seed = training.seed ^ (u64::from(pass) << 40 | number << 20);
            let gradient = gradient::of_trace(&net, trace, training, seed)?;
            adam.step(&mut net, &gradient);
        }
        let score = on_held_out(&net)?;
        said(pass, score);
        if score.reward > found.best.reward {
            (found.net, found.best, found.pass) = (net.clone(), score, pass);
        }
    }
    Ok(found)
}

/// Trains a network to imitate MLF-H.
fn imitate(net: &mut Net, traces: &[Trace], training: &NetTraining) -> Result<(), ReplayError> {
    let shown: Vec<Vec<RecordedChoice>> = traces
        .iter()
        .map(|trace| Ok(play::play(trace, Chooser::Priority)?.1))
        .collect::<Result<_, ReplayError>>()?;
    let mut adam = Adam::new(net, training.rate);
    for _ in 0..training.imitations {
        for choices in shown.iter().filter(|choices| !choices.is_empty()) {
            let mut gradient = net.no_gradient();
            let part = 1.0 / to_f64(choices.len());
            for choice in choices {
                net.add_gradient(&choice.candidates, choice.chosen, (part, 0.0), &mut gradient);
            }
            adam.step(net, &gradient);
        }
    }
    Ok(())
}
