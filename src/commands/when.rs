//! `hsched when`: when each job would be done, by what it asks of the queue.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::foretelling::{self, Foretold, Found, Queue, QueueViewArgs};
use crate::app::input;
use crate::app::speeds::SpeedArgs;
use crate::clock::Clock;
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::when_score;
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{Job, SpeedBasis};
use crate::queue::{Choice, Forecast, Outlook};
use crate::settings::Flag;
use crate::ui::{Progress, When, WhenRow, duration, when_legend, when_table, wrap, write_output};

/// Show which request of each job would finish first: wait in the queue and run together
///
/// For each job on its own, compares types and numbers of GPUs, accounts and partitions. Each wait is estimated: the
/// queue is played through many times, with run times and arrivals as in the past. The interval is meant to hold eight
/// starts of ten; of the 335 real starts by which it was set, it held seven to nine. Changes nothing, and asks little of Slurm: see docs/queue.md.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Job file (YAML); - reads standard input.
    #[arg(value_name = "JOBS", required_unless_present = "score")]
    jobs: Option<PathBuf>,
    /// Show instead how right was what `hsched submit --queue` foretold in the last ninety days. Asks Slurm nothing: starts are
    /// known from hsched watch.
    #[arg(long, conflicts_with_all = ["jobs", "snapshot", "save"])]
    score: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    view: QueueViewArgs,
    /// Also save the snapshot of the queue to this file, as JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot", help_heading = "Queue")]
    save: Option<PathBuf>,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Queue")]
    seed: u64,
    /// Stop looking at futures after this time, such as 10s or 2m.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = foretelling::duration,
          help_heading = "Queue")]
    budget: Duration,
    #[command(flatten)]
    speeds: SpeedArgs,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn flags(&self) -> Vec<Flag> {
        self.speeds.flags()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let Some(path) = &self.jobs else { return when_score::run(context, self.format) };
        let jobs = input::jobs(&input::text(path)?, path)?;
        let queues = self.view.queues(context)?;
        if let (Some(path), [queue]) = (&self.save, queues.as_slice()) {
            save(path, queue)?;
        }
        let mut told = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            let mut notes = Vec::new();
            let left = u32::try_from(jobs.len() - number).unwrap_or(u32::MAX);
            let Found { list, nothing } = self.foretell(context, job, &queues, left, &mut notes)?;
            let choice = foretelling::best(&list, self.view.search.cost_weight);
            told.push(Told { job, list, nothing, choice, notes });
        }
        let text = match self.format {
            Format::Json => json_text(&json(&told, &queues))?,
            Format::Table => table(context, &told, &queues),
        };
        print(context, &text)?;
        Ok(foretelling::exit(told.iter().map(|own| (own.job, own.choice.is_some()))))
    }
}

/// A job and what is known of it.
struct Told<'a> {
    job: &'a Job,
    list: Vec<Foretold>,
    /// Why there are none.
    nothing: Option<String>,
    choice: Option<Choice>,
    notes: Vec<String>,
}

impl Told<'_> {
    /// Returns why a request is chosen, or why none is.
    fn reason(&self) -> Option<String> {
        let unknown = self.list.iter().find_map(|own| match &own.outlook {
            Outlook::Unknown(why) => Some(format!("nobody can tell when it would start: {why}")),
            _ => None,
        });
        let chosen = self.choice.map(|choice| choice.reason.word().to_owned());
        chosen.or_else(|| self.nothing.clone()).or(unknown)
    }
}

impl Args {
    /// Looks at a job's requests for its share of the budget: that of the next of `left` jobs.
    fn foretell(
        &self,
        context: &Context,
        job: &Job,
        queues: &[Queue],
        left: u32,
        notes: &mut Vec<String>,
    ) -> Result<Found, Failure> {
        let _progress = Progress::start(format!("{}: looking at futures of the queue", job.name));
        let begin = context.clock.elapsed();
        let share = self.budget / left.max(1);
        let stop = || context.clock.elapsed().saturating_sub(begin) >= share;
        let sampling = (self.seed, self.view.search.futures_alone());
        foretelling::foretell((context, &self.speeds), job, queues, sampling, &stop, notes)
    }
}

fn save(path: &std::path::Path, queue: &Queue) -> Result<(), Failure> {
    let text = queue.snapshot.to_json().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
    write_output(path, &text).map_err(|error| {
        Failure::new(Exit::Failed, format!("{}: cannot be written: {error}", path.display()))
    })
}

fn table(context: &Context, told: &[Told], queues: &[Queue]) -> String {
    let blocks = told.iter().map(|own| when_table(&when(own, queues), context.terminal));
    let mut text = blocks.collect::<Vec<_>>().join("\n");
    let unit =
        told.iter().flat_map(|own| &own.list).find_map(|own| own.own.cost).map(|cost| cost.unit.word());
    let mut notes = if told.iter().all(|own| own.list.is_empty()) { Vec::new() } else { when_legend(unit) };
    for queue in queues {
        notes.push(format!("{}: the queue as it was {} ago", queue.name, duration(queue.age)));
        notes.extend(queue.corrected());
        notes.extend(queue.snapshot.notes.iter().map(|note| format!("{}: {note}", queue.name)));
    }
    if told.len() > 1 {
        notes.push("each job as if it were the only one; hsched plan --queue plans them together".to_owned());
    }
    text.push('\n');
    for note in notes {
        text.push_str(&wrap(&note, context.terminal.width(), "  "));
        text.push('\n');
    }
    text
}

fn when<'a>(told: &'a Told, queues: &'a [Queue]) -> When<'a> {
    let list = &told.list;
    let differs =
        |own: &dyn Fn(&Foretold) -> Option<String>| list.windows(2).any(|two| own(&two[0]) != own(&two[1]));
    let several_partitions = differs(&|own| own.own.request.partition.clone());
    let several_accounts = differs(&|own| own.own.request.account.clone());
    let row = |own: &'a Foretold| {
        let row = row(own);
        WhenRow {
            cluster: (queues.len() > 1).then(|| queues[own.queue].name.as_str()),
            partition: row.partition.filter(|_| several_partitions),
            account: row.account.filter(|_| several_accounts),
            ..row
        }
    };
    let mut notes = told.notes.clone();
    let chosen = told.choice.map(|choice| &list[choice.number]).or(list.first());
    if let Some(Foretold { outlook: Outlook::Unknown(why), .. }) = chosen {
        notes.push(format!("nobody can tell when it would start: {why}"));
    } else if let Some(own) = chosen {
        notes.push(format!("priority {}", own.standing.source.word()));
    }
    When {
        job: told.job.name.as_str(),
        place: chosen.and_then(place).or_else(|| told.nothing.clone()),
        rows: list.iter().map(row).collect(),
        chosen: told.choice.map(|choice| (choice.number, choice.reason.word())),
        unit: list.iter().find_map(|own| own.own.cost).map(|cost| cost.unit.word()),
        notes,
    }
}

/// Returns a request as a row of the table of one cluster.
pub(super) fn row(own: &Foretold) -> WhenRow<'_> {
    WhenRow {
        gpus: gpus(own),
        cluster: None,
        partition: own.own.request.partition.as_deref(),
        account: own.own.request.account.as_deref(),
        limit: own.own.request.limit,
        outlook: &own.outlook,
        run: own.own.run,
        done: own.done,
        cost: own.own.cost.map(|cost| cost.hours),
        mark: marks(own).join(", "),
    }
}

/// Returns the GPUs of a request in words.
pub(super) fn gpus(own: &Foretold) -> String {
    let nodes = own.own.request.asks.nodes;
    let on = if nodes > 1 { format!(" on {nodes} nodes") } else { String::new() };
    format!("{} {}{on}", own.own.gpus, own.own.gpu_type)
}

fn marks(own: &Foretold) -> Vec<String> {
    let mut marks = Vec::new();
    let walltime = own.own.walltime;
    if walltime.pieces > 1 {
        marks.push(format!("{} pieces of {}", walltime.pieces, walltime.length()));
    }
    if own.own.terms.basis == SpeedBasis::Estimated {
        marks.push("speed estimated".to_owned());
    }
    if own.own.preemptible {
        marks.push("may be stopped for others".to_owned());
    }
    marks
}

/// Returns a request's place in line, in words.
fn place(own: &Foretold) -> Option<String> {
    let Outlook::Estimated(forecast) = &own.outlook else { return None };
    if forecast.past_waits > 0 {
        let count = forecast.past_waits;
        return Some(format!("the queue is hidden; waits are those of {count} past jobs of yours"));
    }
    let (waiting, place) = (forecast.waiting, forecast.ahead + 1);
    let ending = match (place % 10, place % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    let account = own.own.request.account.as_ref().map_or(String::new(), |name| format!(" (account {name})"));
    Some(match waiting {
        0 => format!("no job waits for the same nodes{account}"),
        1 => format!("1 job waits for the same nodes; yours would be the {place}{ending}{account}"),
        _ => format!("{waiting} jobs wait for the same nodes; yours would be the {place}{ending}{account}"),
    })
}

fn json(told: &[Told], queues: &[Queue]) -> Value {
    let queue = |own: &Queue| {
        json!({ "cluster": own.name, "taken_at": own.snapshot.taken_at, "age_s": own.age,
            "corrected_by": own.learnt.map(|(_, count)| count),
            "notes": own.snapshot.notes })
    };
    let job = |own: &Told| {
        json!({
            "name": own.job.name.as_str(),
            "chosen": own.choice.map(|choice| choice.number),
            "reason": own.reason(),
            "options": own.list.iter().map(|option| option_json(option, queues)).collect::<Vec<_>>(),
            "notes": own.notes,
        })
    };
    json!({
        "schema": "hsched.when/1",
        "estimated": true,
        "queues": queues.iter().map(queue).collect::<Vec<_>>(),
        "jobs": told.iter().map(job).collect::<Vec<_>>(),
    })
}

/// Returns what an estimate rests on, in a word.
fn method(forecast: &Forecast) -> &'static str {
    match forecast {
        Forecast { past_waits: 1.., .. } => "past-waits",
        Forecast { starts, .. } if starts.is_empty() => "limits",
        _ => "futures",
    }
}

/// Returns a request and what is known of it, as JSON.
pub(super) fn option_json(own: &Foretold, queues: &[Queue]) -> Value {
    let request = &own.own.request;
    let mut value = json!({
        "cluster": queues[own.queue].name,
        "partition": request.partition,
        "account": request.account,
        "type": own.own.gpu_type.as_str(),
        "gpus": own.own.gpus,
        "nodes": request.asks.nodes,
        "limit_s": request.limit,
        "run_s": own.own.run,
        "run_estimated": own.own.terms.basis == SpeedBasis::Estimated,
        "pieces": own.own.walltime.pieces,
        "preemptible": own.own.preemptible,
        "cost": own.own.cost.map(|cost| cost.hours),
        "cost_unit": own.own.cost.map(|cost| cost.unit.word()),
        "priority": own.standing.priority,
        "priority_source": own.standing.source.word(),
        "finish": own.done,
    });
    match &own.outlook {
        Outlook::Estimated(forecast) => {
            value["outlook"] = json!("estimated");
            value["method"] = json!(method(forecast));
            value["past_waits"] = json!(forecast.past_waits);
            value["futures"] = json!(forecast.starts.len());
            value["start"] = json!(forecast.start);
            value["start_at_limits_s"] = json!(forecast.at_limits);
            value["finishes_first"] = json!(forecast.first);
            value["ahead"] = json!(forecast.ahead);
            value["waiting"] = json!(forecast.waiting);
        }
        Outlook::Unknown(why) => {
            value["outlook"] = json!("unknown");
            value["why"] = json!(why);
        }
        Outlook::Never => value["outlook"] = json!("never"),
    }
    value
}
