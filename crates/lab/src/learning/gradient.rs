//! REINFORCE: a choice becomes more likely if its return is higher than that of other runs of the same trace
//! at the same time.

use std::sync::Arc;

use libm::sqrt;

use crate::learning::goal::rewards;
use crate::learning::{NetTraining, play};
use crate::mlfs::{Chooser, Net, RecordedChoice, discounted};
use crate::replay::{ReplayError, Trace};
use hsched_model::number::to_f64;

/// The choices of a run, with their times, and the return after each choice.
struct ChoiceRun {
    choices: Vec<RecordedChoice>,
    worths: Vec<f64>,
}

/// Returns the gradient over several runs of a trace.
pub(super) fn of_trace(
    net: &Net,
    trace: &Trace,
    training: &NetTraining,
    seed: u64,
) -> Result<Vec<f64>, ReplayError> {
    let shared = Arc::new(net.clone());
    let run = |number: u32| {
        let chooser = Chooser::drawn(Arc::clone(&shared), seed.wrapping_add(number.into()));
        let (record, choices) = play::play(trace, chooser)?;
        let moments: Vec<f64> = choices.iter().map(|choice| choice.at.0).collect();
        let worths = discounted(&rewards(trace, &record, &moments), training.factor);
        Ok(ChoiceRun { choices, worths })
    };
    let runs: Vec<ChoiceRun> = (0..training.runs).map(run).collect::<Result<_, ReplayError>>()?;
    let advantages = advantages(&runs);
    let count: usize = runs.iter().map(|run| run.choices.len()).sum();
    let mut gradient = net.no_gradient();
    let part = 1.0 / to_f64(count.max(1));
    for (run, advantages) in runs.iter().zip(&advantages) {
        for (choice, advantage) in run.choices.iter().zip(advantages) {
            let weights = (part * advantage, part * training.bonus);
            net.add_gradient(&choice.candidates, choice.chosen, weights, &mut gradient);
        }
    }
    Ok(gradient)
}

/// Returns the advantage of each choice: its return minus the mean return, over all runs, of the first choice
/// from its time on, in units of the standard deviation.
fn advantages(runs: &[ChoiceRun]) -> Vec<Vec<f64>> {
    let at = |run: &ChoiceRun, time: f64| {
        let place = run.choices.partition_point(|choice| choice.at.0 < time);
        run.worths.get(place).copied().unwrap_or(0.0)
    };
    let count = to_f64(runs.len().max(1));
    let usual = |time: f64| runs.iter().map(|run| at(run, time)).sum::<f64>() / count;
    let above = |run: &ChoiceRun| -> Vec<f64> {
        run.choices.iter().zip(&run.worths).map(|(choice, worth)| worth - usual(choice.at.0)).collect()
    };
    let mut all: Vec<Vec<f64>> = runs.iter().map(above).collect();
    let numbers: usize = all.iter().map(Vec::len).sum();
    let squares: f64 = all.iter().flatten().map(|advantage| advantage * advantage).sum();
    let spread = sqrt(squares / to_f64(numbers.max(1)));
    if spread > 0.0 {
        all.iter_mut().flatten().for_each(|advantage| *advantage /= spread);
    }
    all
}
