//! The tables of `hsched when`, with their notes.

use super::rows::{place, row};
use super::{EstimatedJob, UNKNOWN};
use crate::app::cluster_queue::ClusterQueue;
use crate::app::context::Context;
use crate::app::start_estimates::{self, OptionEstimate};
use hsched_queue::Start;
use hsched_ui::{When, WhenJob, WhenRow, when_legend, when_table, wrap};

/// Number of requests that a table of several jobs always shows for each job.
const FIRST_TO_FINISH: usize = 3;

/// Returns the requests of all jobs as tables, with notes.
pub(super) fn table(context: &Context, told: &[EstimatedJob], queues: &[ClusterQueue]) -> String {
    let unit = told
        .iter()
        .flat_map(|estimated| &estimated.list)
        .find_map(|estimate| estimate.option.cost)
        .map(|cost| cost.unit.word());
    let when = When { jobs: when_jobs(told, queues), unit, is_sorted: true };
    let mut text: String = queues.iter().map(|queue| queue.first_line(context.terminal)).collect();
    text.push_str(&when_table(&when, context.terminal));
    let mut notes = when_legend(&when);
    for queue in queues {
        notes.extend(queue.seen_now());
        notes.extend(queue.growth());
        notes.extend(queue.reached_limits());
        notes.extend(queue.rests_on());
        notes.extend(queue.snapshot.notes.iter().map(|note| format!("{}: {note}", queue.label())));
    }
    if told.len() > 1 {
        notes.push(
            "each job is estimated as if it were the only one; hsched plan --queue plans them together"
                .to_owned(),
        );
    }
    text.push('\n');
    for note in notes {
        text.push_str(&wrap(&note, context.terminal.width(), "  "));
        text.push('\n');
    }
    text
}

/// Returns the jobs of the table; jobs with the same requests share an entry.
fn when_jobs<'a>(told: &'a [EstimatedJob], queues: &'a [ClusterQueue]) -> Vec<WhenJob<'a>> {
    let list = || told.iter().flat_map(|estimated| &estimated.list);
    let differs = |value: &dyn Fn(&OptionEstimate) -> Option<String>| {
        list().zip(list().skip(1)).any(|(a, b)| value(a) != value(b))
    };
    let several_partitions = differs(&|estimate| estimate.option.request.partition.clone());
    let several_accounts = differs(&|estimate| estimate.option.request.account.clone());
    let row = |option_estimate: &'a OptionEstimate| {
        let row = row(option_estimate);
        WhenRow {
            cluster: (queues.len() > 1).then(|| queues[option_estimate.queue].name.as_str()),
            partition: row.partition.filter(|_| several_partitions),
            account: row.account.filter(|_| several_accounts),
            ..row
        }
    };
    let first = told.iter().enumerate().filter(|(number, estimated)| estimated.first == *number);
    first
        .map(|(number, estimated)| {
            let names =
                told.iter().filter(|alike| alike.first == number).map(|alike| alike.job.name.as_str());
            let kept =
                if told.len() > 1 { worth_showing(estimated) } else { (0..estimated.list.len()).collect() };
            when_job(
                (estimated, queues),
                names.collect(),
                &kept,
                kept.iter().map(|&number| row(&estimated.list[number])).collect(),
            )
        })
        .collect()
}

/// Returns the requests of a job that a table of several jobs shows: the chosen one, the first to finish, and
/// the Pareto-optimal ones in time and cost.
fn worth_showing(told: &EstimatedJob) -> Vec<usize> {
    let good = start_estimates::worth_showing(&told.list);
    let is_chosen = |id| told.choice.is_some_and(|choice| choice.id == id);
    (0..told.list.len())
        .filter(|&index| {
            let id = told.list[index].id();
            index < FIRST_TO_FINISH || is_chosen(id) || good.contains(&id)
        })
        .collect()
}

fn when_job<'a>(
    (told, queues): (&'a EstimatedJob, &[ClusterQueue]),
    names: Vec<&'a str>,
    kept: &[usize],
    rows: Vec<WhenRow<'a>>,
) -> WhenJob<'a> {
    let list = &told.list;
    let mut notes = told.notes.clone();
    if kept.len() < list.len() {
        let left_out = list.len() - kept.len();
        let others = if left_out == 1 {
            "1 other request finishes later and is"
        } else {
            &format!("{left_out} other requests finish later and are")
        };
        notes.push(format!("{}: {others} no cheaper; --format json lists them", told.job.name));
    }
    let chosen = told.best();
    if let Some(OptionEstimate { start: Start::Unknown(why), .. }) = chosen {
        notes.push(format!("{UNKNOWN}: {why}"));
    } else if let Some(OptionEstimate { start: Start::Refused(refusal), .. }) = chosen {
        notes.push(format!("never: {refusal}"));
    } else if let Some(estimate) = chosen {
        notes.push(format!("priority {}", estimate.priority.source.word()));
        let limit = queues[estimate.queue].snapshot.reached_limit_of(&estimate.option.request);
        notes.extend(limit.map(|limit| format!("the {}", limit.use_in_words())));
    }
    WhenJob {
        names,
        place: chosen.and_then(place).or_else(|| told.nothing.clone()),
        rows,
        chosen: told.choice.and_then(|choice| {
            Some((
                kept.iter().position(|&candidate| list[candidate].id() == choice.id)?,
                choice.reason.word(),
            ))
        }),
        notes,
    }
}
