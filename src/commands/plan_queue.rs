//! `hsched plan --queue`: the requests of all jobs of a file, chosen together.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::foretelling::{self, Foretold, Queue, QueueViewArgs};
use crate::app::{input, planning};
use crate::commands::cli::{json_text, print};
use crate::commands::when::{gpus, option_json};
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::Job;
use crate::queue::{Chosen, Jobs, Outlook, Request, choose_together};
use crate::ui::{Progress, When, WhenRow, duration, when_legend, when_table, wrap, write_output};

/// Requests of a job that are looked at together with those of others: the best alone.
const MOST_OF_JOB: usize = 8;

/// Futures in which jobs are looked at together, at most.
const MOST_FUTURES: u32 = 24;

/// How long the search takes unless told otherwise.
const USUAL_BUDGET: Duration = Duration::from_secs(20);

/// Plans the jobs of a file through the queue, and prints what was chosen.
///
/// # Errors
/// When a file is wrong, or Slurm does not answer.
pub(super) fn run(
    context: &Context,
    planning: &planning::PlanningArgs,
    view: &QueueViewArgs,
    (text, path): (&str, &Path),
    (format, output): (Format, Option<&Path>),
) -> Result<Exit, Failure> {
    let jobs = input::jobs(text, path)?;
    let queues = view.queues(context)?;
    let [queue] = queues.as_slice() else {
        let failure = Failure::new(Exit::Usage, "jobs are planned together in one queue");
        return Err(failure.hint("hsched when compares clusters: give it several snapshots"));
    };
    let stop = planning.stop(context, Some(USUAL_BUDGET));
    let _progress = Progress::start(format!("planning {} jobs through the queue", jobs.len()));
    let (mut notes, mut alone) = (Vec::new(), Vec::new());
    let seed = planning.policy.seed();
    for job in &jobs {
        let sampling = (seed, view.futures.min(MOST_FUTURES));
        let surroundings = (context, &planning.speeds);
        let list = foretelling::foretell(surroundings, job, &queues, sampling, &stop, &mut notes)?;
        alone.push(list.into_iter().take(MOST_OF_JOB).collect::<Vec<Foretold>>());
    }
    let options: Vec<Vec<(Request, f64)>> =
        alone.iter().map(|list| list.iter().map(|own| worth(own, view.cost_weight)).collect()).collect();
    let samples = usize::try_from(view.futures.min(MOST_FUTURES)).unwrap_or(1);
    let asked = Jobs { snapshot: &queue.snapshot, options: &options, seed, samples, calibration: None };
    let chosen = choose_together(&asked, &stop);
    let made = Made { jobs: &jobs, alone: &alone, chosen: &chosen, queues: &queues, notes: &notes };
    let json = json_text(&made.json())?;
    if let Some(path) = output {
        write_output(path, &json).map_err(|error| {
            Failure::new(Exit::Failed, format!("{}: cannot be written: {error}", path.display()))
        })?;
    }
    match format {
        Format::Json => print(context, &json)?,
        Format::Table => print(context, &made.table(context))?,
    }
    Ok(if chosen.iter().all(Option::is_some) { Exit::Done } else { Exit::Unplaced })
}

/// Returns a request, and what is added to its time to the end: further pieces, and what its cost is worth.
fn worth(own: &Foretold, cost_weight: f64) -> (Request, f64) {
    let cost = own.own.cost.map_or(0.0, |cost| cost.hours);
    let rest = own.own.run.0 - own.own.request.run.0;
    let waits = match &own.outlook {
        Outlook::Estimated(forecast) => f64::from(own.own.pieces - 1) * forecast.start.mean.0,
        _ => 0.0,
    };
    (own.own.request.clone(), cost_weight * 3600.0 * cost + rest + waits)
}

/// What was made of a file.
struct Made<'a> {
    jobs: &'a [Job],
    alone: &'a [Vec<Foretold>],
    chosen: &'a [Option<Chosen>],
    queues: &'a [Queue],
    notes: &'a [String],
}

impl Made<'_> {
    /// Returns what was chosen for each job, as it is with the others in the queue.
    fn together(&self) -> Vec<Option<(Foretold, &Chosen)>> {
        let own = |(list, chosen): (&Vec<Foretold>, &Option<Chosen>)| {
            let number = chosen.as_ref()?.option;
            Some(list.get(number)?.clone())
        };
        let all = self.alone.iter().zip(self.chosen);
        all.map(|(list, chosen)| {
            let mut foretold = own((list, chosen))?;
            let chosen = chosen.as_ref()?;
            if let Outlook::Estimated(forecast) = &mut foretold.outlook {
                (forecast.start, forecast.finish) = (chosen.start, chosen.finish);
                forecast.starts.clone_from(&chosen.starts);
            }
            foretold.done = foretelling::done(&foretold.own, &foretold.outlook);
            Some((foretold, chosen))
        })
        .collect()
    }

    fn mean_finish(&self) -> Option<f64> {
        let all = self.together();
        let known: Vec<f64> = all.iter().flatten().filter_map(|(own, _)| Some(own.done?.mean.0)).collect();
        #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
        let count = known.len() as f64;
        (count > 0.0).then(|| known.iter().sum::<f64>() / count)
    }

    fn json(&self) -> Value {
        let job = |(job, own): (&Job, Option<(Foretold, &Chosen)>)| {
            let request = own.map(|(foretold, _)| option_json(&foretold, self.queues));
            json!({ "name": job.name.as_str(), "request": request })
        };
        let queue = &self.queues[0];
        json!({
            "schema": "hsched.queue-plan/1",
            "estimated": true,
            "cluster": queue.name,
            "taken_at": queue.snapshot.taken_at,
            "age_s": queue.age,
            "mean_finish_s": self.mean_finish(),
            "jobs": self.jobs.iter().zip(self.together()).map(job).collect::<Vec<_>>(),
            "notes": self.notes.iter().chain(&queue.snapshot.notes).collect::<Vec<_>>(),
        })
    }

    fn table(&self, context: &Context) -> String {
        let together = self.together();
        let mut text = String::new();
        for (job, own) in self.jobs.iter().zip(&together) {
            let rows = own.iter().map(|(own, _)| WhenRow {
                gpus: gpus(own),
                cluster: None,
                partition: own.own.request.partition.as_deref(),
                account: own.own.request.account.as_deref(),
                limit: own.own.request.limit,
                outlook: &own.outlook,
                run: own.own.run,
                done: own.done,
                cost: own.own.cost.map(|cost| cost.hours),
                mark: String::new(),
            });
            let unit = own.as_ref().and_then(|(own, _)| own.own.cost).map(|cost| cost.unit.word());
            let place = own.as_ref().map(|_| "with the other jobs in the queue".to_owned());
            let when = When {
                job: job.name.as_str(),
                place,
                rows: rows.collect(),
                chosen: None,
                unit,
                notes: Vec::new(),
            };
            text.push_str(&when_table(&when, context.terminal));
            text.push('\n');
        }
        let unit = together.iter().flatten().find_map(|(own, _)| own.own.cost).map(|cost| cost.unit.word());
        let mut notes: Vec<String> = when_legend(unit);
        notes.extend(self.notes.iter().cloned());
        if let Some(mean) = self.mean_finish() {
            let mean = duration(crate::model::Seconds(mean));
            notes.insert(0, format!("done in {mean} on average (estimated)"));
        }
        let queue = &self.queues[0];
        notes.push(format!("{}: the queue as it was {} ago", queue.name, duration(queue.age)));
        notes.extend(queue.snapshot.notes.iter().cloned());
        for note in notes {
            text.push_str(&wrap(&note, context.terminal.width(), "  "));
            text.push('\n');
        }
        text
    }
}
