//! The story as text: what is done, the result, and a sentence or two on why.

use std::collections::BTreeSet;

use crate::commands::demo::Scenario;
use crate::commands::demo::demo_setup::DemoSetup;
use crate::commands::demo::performance::{Performance, completion};
use crate::commands::demo::script::{Excerpt, excerpt};
use hsched_engine::JobState;
use hsched_model::number::{to_f64, to_u64};
use hsched_model::{Holdings, RankNeeds, Seconds};
use hsched_plan::{CheckedPlan, Placer, Problem};
use hsched_ui::{
    Align, Exit, Failure, StoryLine, StoryTopic, Table, Terminal, duration, inventory_table, plan_table, wrap,
};

/// One step of the story.
pub(super) struct Chapter {
    /// Explanation, in lines that fit the terminal.
    pub explained: String,
    pub command: Option<String>,
    pub output: Vec<String>,
}

/// Returns the whole story.
///
/// # Errors
/// Never, unless the job script's template or the first plan is invalid.
pub(super) fn chapters(
    terminal: Terminal,
    setup: &DemoSetup,
    placer: &dyn Placer,
    played: &Performance,
    ways: &[Scenario],
) -> Result<Vec<Chapter>, Failure> {
    let mut chapters = Vec::new();
    let mut add = |explained: &str, command: Option<&str>, output: Vec<String>| {
        let explained = wrap(explained, terminal.width(), "");
        chapters.push(Chapter { explained, command: command.map(str::to_owned), output });
    };
    add(WELCOME, Some("hsched inventory"), inventory(setup, terminal));
    let (submitted, watched): (Vec<_>, Vec<_>) = played.lines.iter().partition(|(at, _)| at.0 == 0.0);
    if let Some(first) = &played.first {
        let plan = plan(placer, &first.problem)?;
        let bound = plan.plan().bound.as_ref();
        let table = plan_table(&first.jobs, &first.problem, &plan, placer.name(), bound, &[], terminal);
        add(PLAN, Some("hsched plan jobs.yaml"), lines(&table));
        let submitted = submitted.iter().filter(|(_, line)| line.topic == StoryTopic::Submission);
        let submitted = submitted.map(|(_, line)| shown(line, "", terminal)).collect();
        add(SUBMIT, Some("hsched submit jobs.yaml"), submitted);
        if let Some(Excerpt { job, lines }) = excerpt(setup, first)? {
            let command = format!("hsched submit jobs.yaml -j {job} --dry-run | grep ...");
            add(SCRIPT, Some(&command), lines);
        }
    }
    add(WATCH, Some("hsched watch --moves auto"), log(&watched, terminal));
    add(outcome(played), None, summary(&played.state.jobs, terminal));
    add(WAYS, None, lines(&ways_table(ways).show(terminal)));
    add(NEXT, None, Vec::new());
    Ok(chapters)
}

/// Returns the plan of a placer for a problem.
///
/// # Errors
/// Never, unless the placer fails.
fn plan(placer: &dyn Placer, problem: &Problem) -> Result<CheckedPlan, Failure> {
    let assignment = placer.place(problem, &|| false);
    let plan =
        assignment.and_then(|assignment| hsched_plan::checked(placer.name(), problem, assignment.into()));
    plan.map_err(|error| Failure::from_error(Exit::Internal, &error))
}

const WELCOME: &str = "This cluster has four nodes with three GPU types, and there are four training jobs. Everything is simulated, so hours pass in a moment, but hsched decides as on a real cluster.";
const PLAN: &str = "jobs.yaml gives the throughput of each job on each GPU type. Which job should get which GPUs to minimise the mean completion time?";
const SUBMIT: &str = "Each becomes one Slurm job.";
const SCRIPT: &str = "Its ranks get unequal local batches and finish them at the same time. The columns are node, local rank, local batch, micro-batch, accumulation steps, GPU type.";
const WATCH: &str = "Now watch the jobs (individual epochs and restarts are not shown). One throughput in jobs.yaml is far off, one job will fail, and one node will die.";
const WAYS: &str =
    "The same jobs and events on the same cluster, without moves and with equal local batches:";
const NEXT: &str = "Your turn: `hsched doctor` checks your cluster, and `hsched init` writes a job file to start from. Without Slurm, `hsched generate` writes a random cluster and jobs to plan.";

/// Remarks shown when an event happens for the first time.
const REMARKS: [(StoryTopic, &str); 5] = [
    (StoryTopic::Speed, "Its ranks measured the real speed. From now on hsched uses that, not the job file."),
    (StoryTopic::Stop, "The moves save more time than the restarts cost."),
    (StoryTopic::End, "It is retried after a short delay, and no finished epoch is lost."),
    (StoryTopic::NodeDown, "The job did not cause this, so it uses no retry. It waits for other GPUs."),
    (StoryTopic::Completed, "Its GPUs are now free for other jobs."),
];

/// Prefix of a remark.
const MARGIN: &str = "         # ";

fn inventory(setup: &DemoSetup, terminal: Terminal) -> Vec<String> {
    let needs = RankNeeds { cpus: 1, memory: 0 };
    lines(&inventory_table(&setup.cluster, needs, &Holdings::new(), terminal))
}

/// Returns the log with a remark on the first event of each kind.
fn log(lines: &[&(Seconds, StoryLine)], terminal: Terminal) -> Vec<String> {
    let mut remarks = REMARKS.to_vec();
    let (mut log, mut moving) = (Vec::new(), BTreeSet::new());
    for (at, line) in lines {
        // The destination of a moved job was shown when it was stopped.
        let is_move = match line.topic {
            StoryTopic::Epoch | StoryTopic::Queue | StoryTopic::Start | StoryTopic::Saved => continue,
            StoryTopic::Stop => moving.insert(&line.job),
            StoryTopic::Submission => moving.remove(&line.job),
            _ => false,
        };
        if is_move && line.topic == StoryTopic::Submission {
            continue;
        }
        log.push(shown(line, &format!("{} ", stamp(*at)), terminal));
        if let Some(place) = remarks.iter().position(|(topic, _)| *topic == line.topic) {
            let (_, remark) = remarks.remove(place);
            let remark = wrap(remark, terminal.width() - MARGIN.len(), "");
            log.extend(remark.lines().map(|line| format!("{MARGIN}{line}")));
        }
    }
    log
}

fn shown(line: &StoryLine, stamp: &str, terminal: Terminal) -> String {
    let indent = " ".repeat(stamp.len() + 2);
    let text = wrap(&format!("{stamp}{}", line.plain()), terminal.width(), &indent);
    line.paint(text, terminal.colour())
}

/// Returns hours, minutes and seconds since the start.
fn stamp(time: Seconds) -> String {
    let whole = to_u64(time.0);
    format!("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

/// Summarises the outcome of the jobs in a sentence.
fn outcome(played: &Performance) -> &'static str {
    let reports = |tracked: &JobState| {
        let is_report = |(_, line): &&(Seconds, StoryLine)| {
            line.topic == StoryTopic::Epoch && line.job.as_ref() == Some(&tracked.job.name)
        };
        played.lines.iter().filter(is_report).count() as u64
    };
    let is_whole =
        |tracked: &JobState| completion(tracked).is_some() && reports(tracked) == tracked.job.epochs;
    if played.state.jobs.iter().all(is_whole) {
        "All jobs are complete, and each epoch ran exactly once. PREDICTED is from the first plan, before anything went wrong:"
    } else {
        "Not all jobs are complete:"
    }
}

/// Returns a line per job: its epochs, its GPUs over time, and its duration compared with the first
/// prediction.
fn summary(jobs: &[JobState], terminal: Terminal) -> Vec<String> {
    let mut table = Table::new(&[
        ("JOB", Align::Left),
        ("EPOCHS", Align::Right),
        ("GPUS OVER TIME", Align::Left),
        ("PREDICTED", Align::Right),
        ("ACTUAL", Align::Right),
    ]);
    for tracked in jobs {
        let mut gpus: Vec<String> = tracked.past.iter().map(|past| past.attempt.gpus.to_string()).collect();
        gpus.dedup();
        let predicted = |epoch: Seconds| Seconds(epoch.0 * to_f64(tracked.job.epochs));
        let predicted = tracked.past.first().map(|past| predicted(past.attempt.epoch));
        let time = |time: Option<Seconds>| time.map_or_else(|| "-".into(), duration);
        table.row([
            tracked.job.name.to_string(),
            tracked.epochs_done.to_string(),
            gpus.join(", then "),
            time(predicted),
            time(completion(tracked)),
        ]);
    }
    lines(&table.show(terminal))
}

fn ways_table(ways: &[Scenario]) -> Table {
    let mut table = Table::new(&[
        ("VARIANT", Align::Left),
        ("MEAN COMPLETION", Align::Right),
        ("", Align::Right),
        ("MAKESPAN", Align::Right),
    ]);
    let best = ways.first().and_then(|way| way.completions).map(|(mean, _)| mean.0);
    for way in ways {
        let (mean, last) = way.completions.unzip();
        let time = |time: Option<Seconds>| time.map_or_else(|| "-".into(), duration);
        let more = best.zip(mean).map(|(best, mean)| 100.0 * (mean.0 / best - 1.0));
        let more =
            more.filter(|more| more.abs() >= 0.05).map_or(String::new(), |more| format!("{more:+.0} %"));
        table.row([way.name.to_owned(), time(mean), more, time(last)]);
    }
    table
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
