//! The text output of `hsched when SCRIPT`.

use std::fmt::Write as _;

use crate::app::slurm::script_outlook::ScriptOutlook;
use crate::commands::script::when::ScriptReport;
use hsched_model::formats::counted;
use hsched_model::number::to_u64;
use hsched_model::{GpuAsk, GpuType, Request, Seconds, Time};
use hsched_queue::{ChangeEstimate, Snapshot, Start, jobs_in_words, others_preempted, own_preempted};
use hsched_slurm::script_changes::{Setting, words};
use hsched_ui::{ScriptRow, Terminal, duration, moment, rough_duration, script_text};

/// A start within this many seconds counts as immediate.
const AT_ONCE: f64 = 60.0;

/// The farthest estimated start, in seconds.
const FARTHEST: f64 = 30.0 * 86_400.0;

/// Returns the whole text.
pub(super) fn text(report: &ScriptReport, terminal: Terminal) -> String {
    let mut sentences: Vec<String> = report.queue.seen_earlier().into_iter().collect();
    let mut rows = Vec::new();
    let name = report.script.name();
    if let Some(why) = report.why_not() {
        sentences.push(why);
    }
    if let Some(outlook) = &report.outlook {
        sentences.push(asks_for(&name, report, outlook));
        sentences.extend(starts(report, outlook));
        if !outlook.not_counted.is_empty() {
            let options = outlook.not_counted.join(" ");
            sentences.push(format!(
                "Not counted: {options}. It starts no sooner because of that, but maybe later."
            ));
        }
        rows = outlook
            .estimates
            .list
            .iter()
            .enumerate()
            .map(|(place, estimate)| row(report, outlook, (place, estimate)))
            .collect();
    }
    let notes = notes(report, &rows);
    script_text(&sentences, &rows, &notes, terminal)
}

/// Returns the request of the script.
fn asks_for(name: &str, report: &ScriptReport, outlook: &ScriptOutlook) -> String {
    let Request { asks, partition, limit, .. } = &outlook.request;
    let gpus = gpus(report, outlook);
    let nodes = if asks.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", asks.nodes) };
    let mut parts = vec![format!("{gpus} on {nodes}{}", if asks.exclusive { " of its own" } else { "" })];
    let default = report.queue.snapshot.default_partition();
    parts.extend(partition.as_deref().or(default).map(|partition| format!("partition {partition}")));
    let nodes = u64::from(asks.nodes);
    parts.extend(asks.cpus.map(|cpus| match cpus.saturating_mul(nodes) {
        1 => "1 CPU".to_owned(),
        cpus => format!("{cpus} CPUs"),
    }));
    parts.extend(asks.memory_mib.map(|memory| gigabytes(memory.saturating_mul(nodes))));
    parts.push(hours(*limit));
    let mut text = format!("{name} asks for {}", parts.join(", "));
    if outlook.components > 1 {
        text = format!(
            "{name} is a het job of {} components; the one that starts last asks for {}",
            outlook.components,
            parts.join(", ")
        );
    }
    if let Some(array) = report.reading.request.as_ref().and_then(|request| request.array) {
        let tasks = array.tasks.map_or_else(|| "some".to_owned(), |tasks| tasks.to_string());
        let _ = write!(text, ", for each of {tasks} array tasks");
    }
    text + "."
}

/// Returns the requested GPUs: `2 v100 and 2 t4 GPUs`.
fn gpus(report: &ScriptReport, outlook: &ScriptOutlook) -> String {
    let asks = &outlook.request.asks;
    let nodes = u64::from(asks.nodes);
    // For a job without components, the script gives the total, which the nodes may share unequally.
    let request = report.reading.request.as_ref().filter(|_| outlook.components == 1);
    let counts: Vec<(&str, u64)> = match request {
        Some(request) if !request.total.gpus_total_is_minimum => {
            let shares = request.total.gpu_shares.iter();
            shares.map(|share| (share.kind.as_deref().unwrap_or_default(), share.total)).collect()
        }
        _ => {
            let count = |ask: &GpuAsk| u64::from(ask.count).saturating_mul(nodes);
            let gpus = asks.gpus.iter();
            gpus.map(|ask| (ask.gpu_type.as_ref().map_or("", GpuType::as_str), count(ask))).collect()
        }
    };
    let counts: Vec<(&str, u64)> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    let words: Vec<String> =
        counts.iter().map(|(kind, count)| format!("{count} {kind}").trim_end().to_owned()).collect();
    match counts.iter().map(|(_, count)| count).sum() {
        0_u64 => "no GPU".to_owned(),
        1 => format!("{} GPU", words.join(" and ")),
        _ => format!("{} GPUs", words.join(" and ")),
    }
}

fn starts(report: &ScriptReport, outlook: &ScriptOutlook) -> Vec<String> {
    let taken_at = report.queue.snapshot.taken_at;
    match &outlook.estimates.as_is {
        Start::Estimated(forecast) if forecast.start.median.0 >= FARTHEST => {
            vec!["It would not start within 30 days.".to_owned()]
        }
        Start::Estimated(forecast) => {
            let (low, median, high) = (forecast.start.low, forecast.start.median, forecast.start.high);
            let at = |delay: Seconds| moment(Time(taken_at.0 + delay.0), taken_at);
            let of = if forecast.past_waits > 0 {
                format!(" The queue is hidden; this rests on {} of your past jobs.", forecast.past_waits)
            } else {
                String::new()
            };
            let at_once = if report.queue.snapshot.lacks_limits() {
                "It would start at once, if no limit of an account or QOS delays it: these limits are unknown."
            } else {
                "It would start at once."
            };
            let limit = report.queue.snapshot.reached_limit_of(&outlook.request);
            if high.0 < AT_ONCE && limit.is_none() {
                return vec![format!("{at_once}{of}")];
            }
            let interval = match forecast.few_futures() {
                _ if forecast.is_by_limits() => " All jobs are taken to run to their limits.".to_owned(),
                Some(count) => format!(" This is estimated from {}.", counted(count, "future")),
                None => format!(" In 8 of 10 cases: between {} and {}.{of}", at(low), at(high)),
            };
            let start = match &limit {
                Some(_) if median.0 < AT_ONCE => "It would start within a minute.".to_owned(),
                None if median.0 < AT_ONCE => at_once.to_owned(),
                _ => format!("It would start at {}, in {}.", at(median), rough_duration(median)),
            };
            let mut list = vec![start + &interval];
            if let Some(limit) = limit {
                list.push(format!("The {}.", limit.use_in_words()));
            } else if forecast.past_waits == 0 {
                list.extend(waits_for(report, outlook, Time(taken_at.0 + median.0), forecast.ahead));
            }
            list
        }
        Start::Unknown(why) => vec![format!("No start can be estimated: {why}.")],
        Start::Refused(refusal) => vec![format!("It would never start: {refusal}.")],
        Start::Never => {
            let why = outlook.obstacle.clone();
            let why = why.unwrap_or_else(|| "no node could ever hold what it asks for".to_owned());
            vec![format!("It would never start: {why}.")]
        }
    }
}

/// Returns a sentence on the wait: how many of the requested GPUs are free, and how many jobs are ahead. If
/// enough are free, these jobs come first, or the nodes lack something else. If the script starts at the time
/// of its `--begin`, the sentence says so; otherwise `None` for a script without GPUs.
fn waits_for(report: &ScriptReport, outlook: &ScriptOutlook, start: Time, ahead: usize) -> Option<String> {
    if outlook.request.further.begin.is_some_and(|begin| start.0 - begin.0 < AT_ONCE) {
        return Some("It waits for the time of its --begin.".to_owned());
    }
    let before = match ahead {
        0 => "no job is before it".to_owned(),
        1 => "1 job is before it".to_owned(),
        count => format!("{count} jobs are before it"),
    };
    let gpu_type = outlook.request.asks.gpus.first()?.gpu_type.as_ref();
    let (free, all) = report.queue.snapshot.free_gpus(&outlook.request);
    let kind = gpu_type.map_or_else(String::new, |gpu_type| format!(" {}", gpu_type.as_str()));
    let of_type = report.queue.snapshot.nodes.iter().flat_map(|node| &node.gpus);
    let of_type = of_type.filter(|gpu| gpu_type.is_none_or(|wanted| *wanted == gpu.gpu_type));
    let elsewhere = of_type.map(|gpu| gpu.count).sum::<u32>().saturating_sub(all);
    let kind = match elsewhere {
        0 => kind,
        count => format!("{kind} ({count} more are on nodes that cannot take it)"),
    };
    let is = if free == 1 { "is" } else { "are" };
    let asks = &outlook.request.asks;
    let asked: u32 = asks.gpus.iter().map(|ask| ask.count).sum();
    let asked = asked.saturating_mul(asks.nodes);
    Some(match ahead {
        _ if free < asked => format!("It waits for GPUs: {free} of {all}{kind} {is} free, and {before}."),
        0 => format!(
            "{free} of {all}{kind} {is} free, and {before}: it may wait for CPUs or memory, or for GPUs that are free together on a node."
        ),
        _ => format!(
            "It waits for its turn: {free} of {all}{kind} {is} free, but {before}, for which Slurm keeps room."
        ),
    })
}

/// Returns a change as a row.
fn row(
    report: &ScriptReport,
    outlook: &ScriptOutlook,
    (place, change_estimate): (usize, &ChangeEstimate),
) -> ScriptRow {
    let taken_at = report.queue.snapshot.taken_at;
    let at = |delay: Seconds| {
        if delay.0 < AT_ONCE { "now".to_owned() } else { moment(Time(taken_at.0 + delay.0), taken_at) }
    };
    let starts =
        change_estimate.start.forecast().map_or_else(String::new, |forecast| at(forecast.start.median));
    ScriptRow {
        starts,
        sooner: change_estimate.sooner.map_or_else(
            || if outlook.estimates.as_is.is_never() { "as is: never" } else { "as is: unknown" }.to_owned(),
            rough_duration,
        ),
        done: change_estimate.done.map(|done| at(done.median)),
        change: change(report, outlook, place),
        costs: costs(change_estimate),
        stops_own: change_estimate.set.stops_own(),
    }
}

/// Returns the cost of a change as text.
pub(super) fn costs(change_estimate: &ChangeEstimate) -> String {
    let costs: Vec<String> = change_estimate.set.drawbacks.iter().map(ToString::to_string).collect();
    if costs.is_empty() { "nothing".to_owned() } else { costs.join("; ") }
}

/// Returns a change for people: its options, and then the numbers of the two rows that it combines, or the
/// current value of a single option.
fn change(report: &ScriptReport, outlook: &ScriptOutlook, place: usize) -> String {
    let list = &outlook.estimates.list;
    let changes = &list[place].set.changes;
    let parts: Vec<usize> = (0..list.len())
        .filter(|other| {
            let part = &list[*other].set.changes;
            part.len() < changes.len() && part.iter().all(|change| changes.contains(change))
        })
        .collect();
    if let [first, second] = parts[..]
        && list[first].set.changes.len() + list[second].set.changes.len() == changes.len()
    {
        let options = words(&outlook.settings[place]).join(" ");
        return format!("{options} (changes {} and {})", first + 1, second + 1);
    }
    let settings = &outlook.settings[place];
    match settings.as_slice() {
        [one] => format!("{}, now {}", words(settings).join(" "), now_is(report, one)),
        several => words(several).join(" "),
    }
}

/// Returns the current value of an option.
fn now_is(report: &ScriptReport, setting: &Setting) -> String {
    let option = report.reading.options.iter().rev().find(|option| option.name == setting.name);
    let value = option.and_then(|option| option.value.clone());
    value.unwrap_or_else(|| if option.is_some() { "set" } else { "not set" }.to_owned())
}

fn notes(report: &ScriptReport, rows: &[ScriptRow]) -> Vec<String> {
    let name = report.script.name();
    let mut notes: Vec<String> = report
        .reading
        .notes
        .iter()
        .map(|note| {
            let line = note.line.map_or_else(String::new, |line| format!("line {line}, "));
            format!("{line}{:?}: {}", note.text, note.why)
        })
        .collect();
    if let Some(outlook) = &report.outlook {
        let unknown = report.reading.unknown.iter().map(|unread| {
            let line = unread.line.map_or_else(String::new, |line| format!("line {line}, "));
            format!("{line}{:?}: {}", unread.text, unread.why)
        });
        notes.extend(unknown);
        if report.may_start() {
            notes.extend(preemption(&report.queue.snapshot, &outlook.request));
        }
        if outlook.components > 1 {
            notes.push("Slurm starts all components of a het job together: not counted".to_owned());
        }
        if rows.is_empty() && outlook.components == 1 && !report.queue.snapshot.others_hidden {
            let starts_now =
                outlook.estimates.as_is.forecast().is_some_and(|forecast| forecast.start.high.0 < AT_ONCE);
            let note = if outlook.estimates.as_is.is_never() {
                "No small change lets it start."
            } else {
                "No small change brings that forward by much."
            };
            notes.extend((!starts_now).then(|| note.to_owned()));
        }
    }
    notes.extend(report.notes.iter().cloned());
    notes.extend(report.queue.seen_now());
    notes.extend(report.queue.growth().filter(|_| report.may_start()));
    notes.extend(report.queue.reached_limits());
    notes.extend(report.queue.rests_on());
    // Without an estimate, it does not matter how the queue was simulated.
    if report.may_start() || !rows.is_empty() {
        let notes_of_queue = report.queue.snapshot.notes.iter();
        notes.extend(notes_of_queue.map(|note| format!("{}: {note}", report.queue.label())));
    }
    if !rows.is_empty() {
        let hint = if report.script.file.is_some() {
            format!(" To write change 1: hsched when {name} --apply 1")
        } else {
            String::new()
        };
        notes.push(format!("Estimated. Nothing is submitted or changed.{hint}"));
    }
    notes
}

/// Returns notes on the running jobs that Slurm may preempt for a script as it is, and on its own preemption.
fn preemption(snapshot: &Snapshot, request: &Request) -> Vec<String> {
    let mut notes = Vec::new();
    let own: Vec<String> = own_preempted(snapshot, request).iter().map(|job| job.id.clone()).collect();
    if !own.is_empty() {
        notes
            .push(format!("As it is, Slurm may stop (preempt) your running {} for it.", jobs_in_words(&own)));
    }
    let others = others_preempted(snapshot, request).len();
    if others > 0 {
        let jobs = counted(others, "running job");
        notes.push(format!("As it is, Slurm may preempt {jobs} of other users for it."));
    }
    notes.extend(snapshot.preempting_words(snapshot.qos_of(request)));
    notes
}

fn gigabytes(mebibytes: u64) -> String {
    if mebibytes >= 1024 { format!("{} GB", mebibytes / 1024) } else { format!("{mebibytes} MB") }
}

/// Returns a limit for people: `24 h`, `30 min`, `1 h 30 min`; `no time limit` for a year or more.
fn hours(limit: Seconds) -> String {
    let minutes = to_u64(limit.0 / 60.0);
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, _) if hours >= 24 * 365 => "no time limit".to_owned(),
        (hours, 0) => format!("{hours} h"),
        _ => duration(limit),
    }
}
