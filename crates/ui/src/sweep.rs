//! A sweep as a table: one line per policy and point, with means over the seeds and their confidence
//! intervals.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::quantity::{duration, percent};
use crate::simulation::SimulationResult;
use crate::simulation_json::{Figure, Mean, PolicyPoint, points};
use crate::{Align, Table, Terminal, wrap};
use hsched_model::Seconds;

/// Returns the table of a sweep.
pub fn sweep_table(runs: &[SimulationResult], terminal: Terminal) -> String {
    let points = points(runs);
    let mut headings = vec![("POLICY", Align::Left)];
    for (name, _) in points.first().map_or(&[][..], |point| point.values) {
        headings.push((heading(name), Align::Right));
    }
    headings.extend([
        ("RUNS", Align::Right),
        ("MEAN JCT", Align::Right),
        ("± 95 %", Align::Right),
        ("RATIO", Align::Right),
        ("P99", Align::Right),
        ("STRETCH", Align::Right),
        ("GPUS USED", Align::Right),
        ("MOVES/JOB", Align::Right),
    ]);
    let mut table = Table::new(&headings);
    for point in &points {
        table.row(cells(point));
    }
    let mut text = table.show(terminal);
    let unended = runs.iter().filter(|run| !run.has_all_ended()).count();
    if unended > 0 {
        let note = format!(
            "In {unended} of {} runs some jobs have not ended; the figures cover the other jobs \
             (--format json lists them).",
            runs.len()
        );
        let _ = writeln!(text, "\n{}", wrap(&note, terminal.width(), ""));
    }
    text
}

/// Returns a note that the seed changes nothing, with the policies whose runs are all equal.
pub fn idle_seed(runs: &[SimulationResult]) -> Option<String> {
    let points = points(runs);
    let is_idle = |point: &PolicyPoint<'_>| point.runs.len() > 1 && !point.differs();
    let policies: BTreeSet<&str> = points.iter().map(|point| point.policy).collect();
    let all_idle = |policy: &&str| points.iter().filter(|point| point.policy == *policy).all(is_idle);
    let idle: Vec<&str> = policies.into_iter().filter(all_idle).collect();
    (!idle.is_empty()).then(|| {
        format!(
            "the seed has no effect with {}: all runs are equal, so there is no interval (only --noise, \
             --job-failures, --node-failures and the search of jps and optimal use the seed)",
            idle.join(", ")
        )
    })
}

fn heading(name: &str) -> &'static str {
    match name {
        "load" => "LOAD",
        "noise" => "NOISE",
        _ => "RESTART",
    }
}

fn cells(point: &PolicyPoint<'_>) -> Vec<String> {
    let mut cells = vec![point.policy.to_owned()];
    let value = |(name, value): &(&str, f64)| match *name {
        "restart-cost" => duration(Seconds(*value)),
        _ => value.to_string(),
    };
    cells.extend(point.values.iter().map(value));
    cells.push(point.runs.len().to_string());
    let time = |seconds: f64| duration(Seconds(seconds));
    let mean = |figure: Figure| point.mean(figure);
    let text = |value: Option<Mean>, show: &dyn Fn(f64) -> String| {
        value.map_or_else(|| "-".to_owned(), |mean| show(mean.mean))
    };
    let jct = mean(|run| Some(run.figures?.mean_jct));
    let margin = jct.as_ref().and_then(|mean| mean.margin).map_or_else(|| "-".to_owned(), time);
    cells.push(text(jct, &time));
    cells.push(margin);
    cells.push(text(mean(SimulationResult::ratio), &|ratio| format!("{ratio:.3}")));
    cells.push(text(mean(|run| Some(run.figures?.p99_jct)), &time));
    cells.push(text(mean(|run| Some(run.figures?.longest_stretch)), &|stretch| format!("{stretch:.1}")));
    cells.push(text(mean(|run| Some(run.figures?.utilisation)), &percent));
    cells.push(text(mean(|run| Some(run.figures?.moves_per_job)), &|moves| format!("{moves:.2}")));
    cells
}
