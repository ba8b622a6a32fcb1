//! `hsched plan --queue`: the requests of all jobs of a file, chosen together.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app::after::note_unknown;
use crate::app::cluster_queue::ClusterQueue;
use crate::app::context::{Context, Format};
use crate::app::input;
use crate::app::planning::PlanningArgs;
use crate::app::start_estimates::{self, OptionEstimate, QueueViewArgs, without_beaten};
use crate::app::through_queue::{self, Through};
use crate::commands::cli::{json_text, print};
use crate::commands::when::row;
use crate::commands::when_json::option_json;
use hsched_model::number::to_f64;
use hsched_model::{ErrorId, Job};
use hsched_ui::{Exit, Failure, When, WhenJob, duration, when_legend, when_table, wrap, write_output};

/// Default time for the search.
const USUAL_BUDGET: Duration = Duration::from_secs(20);

/// Title of the request of a single job.
const CHOSEN: &str = "the chosen request";

/// The arguments of `hsched plan --queue`.
pub(super) struct QueuePlanArgs<'a> {
    pub planning: &'a PlanningArgs,
    pub view: &'a QueueViewArgs,
    /// The job to explain; an empty name means all jobs.
    pub explain: Option<&'a str>,
    /// The text of the job file.
    pub text: &'a str,
    pub path: &'a Path,
    pub format: Format,
    /// The output file for the plan.
    pub output: Option<&'a Path>,
}

impl QueuePlanArgs<'_> {
    /// Plans the jobs of a file through the queue, and prints the choices.
    ///
    /// # Errors
    /// If a file is invalid, or Slurm does not answer.
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let &Self { planning, view, explain, text, path, format, output } = self;
        let jobs = input::jobs(text, path)?;
        let mut notes = Vec::new();
        note_unknown(&jobs, &mut notes);
        for note in &notes {
            context.note(note);
        }
        let queues = view.learnt_queues(context)?;
        let [queue] = queues.as_slice() else {
            let failure = Failure::new(Exit::Usage, "cannot plan jobs across several queues")
                .id(ErrorId::OptionsConflict);
            return Err(failure.hint("give one snapshot; hsched when compares clusters and takes several"));
        };
        let stop = planning.stop(context, Some(USUAL_BUDGET));
        let all: Vec<&Job> = jobs.iter().collect();
        let found = through_queue::choose(
            context,
            &planning.speeds,
            &all,
            queue,
            view.search,
            planning.policy.seed(),
            &stop,
        )?;
        let made = QueuePlan { jobs: &jobs, together: found.together(), found: &found, queue };
        if let Some(name) = explain {
            check_name(name, &jobs)?;
            print(context, &made.explained(name, format, context)?)?;
            return Ok(made.exit());
        }
        let json = json_text(&made.json())?;
        if let Some(path) = output {
            write_output(path, &json).map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
                    .id(ErrorId::FileUnwritable)
            })?;
        }
        match format {
            Format::Json => print(context, &json)?,
            Format::Table => print(context, &made.table(context))?,
        }
        Ok(made.exit())
    }
}

/// Refuses an unknown name of a job to explain; an empty name means all jobs.
fn check_name(name: &str, jobs: &[Job]) -> Result<(), Failure> {
    let is_known = name.is_empty() || jobs.iter().any(|job| job.name.as_str() == name);
    let unknown = || {
        Failure::new(Exit::Usage, format!("--explain {name}: no such job in the file"))
            .id(ErrorId::UnknownJob)
    };
    is_known.then_some(()).ok_or_else(unknown)
}

/// The result for a file.
struct QueuePlan<'a> {
    jobs: &'a [Job],
    /// The choice for each job, with the others in the queue.
    together: Vec<Option<OptionEstimate>>,
    found: &'a Through,
    queue: &'a ClusterQueue,
}

impl<'a> QueuePlan<'a> {
    fn exit(&self) -> Exit {
        start_estimates::exit(self.jobs.iter().zip(self.together.iter().map(Option::is_some)))
    }

    /// Returns the non-dominated requests (in time and cost) and the chosen one, of the job with this name or
    /// of all jobs.
    fn explained(&self, name: &str, format: Format, context: &Context) -> Result<String, Failure> {
        let jobs = self.jobs.iter().zip(&self.found.alone).zip(&self.together);
        let jobs = jobs.filter(|((job, _), _)| name.is_empty() || job.name.as_str() == name);
        let lists = jobs.map(|((job, list), chosen)| (job, without_beaten(list, chosen.as_ref()), chosen));
        if format == Format::Json {
            let queues = std::slice::from_ref(self.queue);
            let job = |(job, list, chosen): (&Job, Vec<OptionEstimate>, &Option<OptionEstimate>)| {
                let options: Vec<Value> = list.iter().map(|estimate| option_json(estimate, queues)).collect();
                let chosen = chosen.as_ref().map(|estimate| option_json(estimate, queues));
                json!({ "name": job.name.as_str(), "options": options, "chosen": chosen })
            };
            let jobs: Vec<Value> = lists.map(job).collect();
            return json_text(
                &json!({ "schema": "hsched.queue-options/1", "estimated": true, "jobs": jobs }),
            );
        }
        let block = |(job, list, chosen): (&Job, Vec<OptionEstimate>, &Option<OptionEstimate>)| {
            let how = if self.jobs.len() > 1 { "chosen together with the other jobs" } else { CHOSEN };
            let is_chosen = |option_estimate: &OptionEstimate| {
                chosen.as_ref().is_some_and(|chosen| chosen.id() == option_estimate.id())
            };
            let marked = list.iter().position(is_chosen).map(|row| (row, how));
            let place = "the chosen request, and the requests that no other request beats in both time and cost \
                         (each as if it were the only job)";
            let unit = list.iter().find_map(|estimate| estimate.option.cost).map(|cost| cost.unit.word());
            let job = WhenJob {
                names: vec![job.name.as_str()],
                place: Some(place.to_owned()),
                rows: list.iter().map(row).collect(),
                chosen: marked,
                notes: Vec::new(),
            };
            when_table(&When { jobs: vec![job], unit, is_sorted: true }, context.terminal)
        };
        Ok(lists.map(block).collect::<Vec<_>>().join("\n"))
    }

    fn mean_finish(&self) -> Option<f64> {
        let all = self.together.iter().flatten();
        let known: Vec<f64> = all.filter_map(|estimate| Some(estimate.done?.mean.0)).collect();
        let count = to_f64(known.len());
        (count > 0.0).then(|| known.iter().sum::<f64>() / count)
    }

    fn json(&self) -> Value {
        let queue = self.queue;
        let job = |((job, estimate), nothing): ((&Job, &Option<OptionEstimate>), &Option<String>)| {
            let request =
                estimate.as_ref().map(|estimate| option_json(estimate, std::slice::from_ref(queue)));
            json!({ "name": job.name.as_str(), "request": request, "reason": nothing })
        };
        json!({
            "schema": "hsched.queue-plan/1",
            "estimated": true,
            "cluster": queue.name,
            "taken_at": queue.snapshot.taken_at,
            "age_s": queue.age,
            "corrected_by": queue.learnt.map(|(_, count)| count),
            "mean_finish_s": self.mean_finish(),
            "jobs": self.jobs.iter().zip(&self.together).zip(&self.found.nothing).map(job).collect::<Vec<_>>(),
            "notes": self.found.notes.iter().chain(&queue.snapshot.notes).collect::<Vec<_>>(),
        })
    }

    fn table(&'a self, context: &Context) -> String {
        let unit = self
            .together
            .iter()
            .flatten()
            .find_map(|estimate| estimate.option.cost)
            .map(|cost| cost.unit.word());
        let job = |((job, estimate), nothing): ((&'a Job, &'a Option<OptionEstimate>), &Option<String>)| {
            let how =
                if self.jobs.len() > 1 { "chosen together with the other jobs of the file" } else { CHOSEN };
            let together = estimate.as_ref().map(|_| how.to_owned());
            WhenJob {
                names: vec![job.name.as_str()],
                place: together.or_else(|| nothing.clone()),
                rows: estimate.iter().map(row).collect(),
                chosen: None,
                notes: Vec::new(),
            }
        };
        let jobs = self.jobs.iter().zip(&self.together).zip(&self.found.nothing).map(job).collect();
        let (when, queue) = (When { jobs, unit, is_sorted: false }, self.queue);
        let mut text = queue.first_line(context.terminal);
        text.push_str(&when_table(&when, context.terminal));
        text.push('\n');
        let mut notes = when_legend(&when);
        notes.extend(self.found.notes.iter().cloned());
        if let Some(mean) = self.mean_finish() {
            let mean = duration(hsched_model::Seconds(mean));
            notes.insert(0, format!("mean completion time: {mean} (estimated)"));
        }
        notes.extend(queue.seen_now());
        notes.extend(queue.rests_on());
        notes.extend(queue.snapshot.notes.iter().cloned());
        for note in notes {
            text.push_str(&wrap(&note, context.terminal.width(), "  "));
            text.push('\n');
        }
        text
    }
}
