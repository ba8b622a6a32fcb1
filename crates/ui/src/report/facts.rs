//! Answers to common questions about jobs and GPUs, in words, from a report's data.

use super::data::{Report, ReportKind, ReportRun, TimeOrigin};
use crate::quantity::{date, duration, percent};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// Relative errors below this are not worth mentioning.
const EQUAL: f64 = 0.0005;

/// Relative error up to which the prediction of an epoch counts as right.
const NEAR: f64 = 0.1;

/// Returns the questions that the data answers, with the answers.
pub fn facts(report: &Report) -> Vec<(String, String)> {
    let questions: [(&str, Option<String>); 7] = [
        ("Which policy is best?", best(report)),
        ("Which job waited longest?", of_runs(report, longest_wait)),
        ("When were GPUs idle?", of_runs(report, idle)),
        ("How long did jobs take?", of_runs(report, completion)),
        ("Were the predicted epochs right?", epochs(report)),
        ("Were the estimated starts right?", waits(report)),
        ("Which request would hsched choose?", requests(report)),
    ];
    questions.into_iter().filter_map(|(question, answer)| Some((question.to_owned(), answer?))).collect()
}

/// Returns the answer for each run, with its name if there are several.
fn of_runs(report: &Report, answer: fn(&Report, &ReportRun) -> Option<String>) -> Option<String> {
    let several = report.runs.len() > 1;
    let run_answer = |run: &ReportRun| {
        let answer = answer(report, run)?;
        Some(if several { format!("{}: {answer}", run.name) } else { answer })
    };
    let answers: Vec<String> = report.runs.iter().filter_map(run_answer).collect();
    (!answers.is_empty()).then(|| answers.join("\n"))
}

fn best(report: &Report) -> Option<String> {
    if report.runs.len() < 2 {
        return None;
    }
    // Means over fewer jobs are not comparable.
    let whole = |run: &&ReportRun| run.ended_s.iter().all(Option::is_some);
    let mean = |run: &ReportRun| run.row.mean_jct_s.unwrap_or(f64::INFINITY);
    let best = report.runs.iter().filter(whole).min_by(|a, b| mean(a).total_cmp(&mean(b)))?;
    let time = duration(Seconds(best.row.mean_jct_s?));
    let ratio =
        best.row.ratio.map_or_else(String::new, |ratio| format!(", {ratio:.3} times the lower bound"));
    Some(format!("{} by mean completion time: {time}{ratio}", best.name))
}

fn longest_wait(report: &Report, run: &ReportRun) -> Option<String> {
    let end = report.times()?.1;
    let waits = report.jobs.iter().zip(run.started_s.iter().zip(&run.ended_s));
    let waits = waits.map(|(job, (started, ended))| {
        let until = started.or(*ended).unwrap_or(end);
        (job, (until - job.arrival_s).max(0.0), started.is_some())
    });
    let (job, wait, started) = waits.max_by(|a, b| a.1.total_cmp(&b.1))?;
    if wait < 1.0 {
        return Some("none waited".to_owned());
    }
    let still = if started { "" } else { ", and never started" };
    Some(format!("{}, {}{still}", job.name, duration(Seconds(wait))))
}

fn idle(report: &Report, run: &ReportRun) -> Option<String> {
    let gpus = to_f64(report.gpus.len());
    let (begin, _) = report.times()?;
    // The period ends with the last job of this policy.
    let end = run.spans.iter().map(|span| span.end).max_by(f64::total_cmp).filter(|end| *end > begin)?;
    // For a period: the idle GPU time, its start and end, and the idle GPUs.
    let (mut held, mut largest) = (0.0, (0.0, begin, begin, 0.0));
    let edges = run.in_use.iter().copied().chain([(end, 0.0)]).collect::<Vec<_>>();
    let before = edges.first().map(|(at, _)| (begin, *at, 0.0));
    let parts = edges.windows(2).map(|pair| (pair[0].0, pair[1].0, pair[0].1));
    for (from, until, count) in before.into_iter().chain(parts) {
        held += count * (until - from);
        let idle = (gpus - count).max(0.0);
        if idle * (until - from) > largest.0 {
            largest = (idle * (until - from), from, until, idle);
        }
    }
    let share = percent((1.0 - held / gpus / (end - begin)).max(0.0));
    let (time, from, until, idle) = largest;
    if time < 0.01 * gpus * (end - begin) {
        return Some(format!("{share} of the GPU time"));
    }
    let when = |at: f64| match report.clock {
        TimeOrigin::Elapsed => duration(Seconds(at - begin)),
        TimeOrigin::Unix => date(Time(at)),
    };
    Some(format!(
        "{share} of the GPU time; most of it from {} to {}: {idle:.0} of {gpus:.0}",
        when(from),
        when(until)
    ))
}

fn completion(report: &Report, run: &ReportRun) -> Option<String> {
    let times = run.completion_times(&report.jobs);
    let at = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100).max(1);
        duration(Seconds(times[rank - 1]))
    };
    (!times.is_empty()).then(|| match times.len() {
        1 => at(50),
        _ => format!("half of them at most {}, 99 % at most {}", at(50), at(99)),
    })
}

fn epochs(report: &Report) -> Option<String> {
    let mut errors: Vec<f64> =
        report.epochs.iter().map(|epoch| epoch.observed_s / epoch.predicted_s - 1.0).collect();
    errors.sort_by(f64::total_cmp);
    let middle = *errors.get(errors.len() / 2)?;
    let near = errors.iter().filter(|error| error.abs() <= NEAR).count();
    let count = errors.len();
    let length = match middle {
        _ if middle.abs() < EQUAL => "as long as".to_owned(),
        _ if middle < 0.0 => format!("{} shorter than", percent(-middle)),
        _ => format!("{} longer than", percent(middle)),
    };
    Some(format!("the middle one of {count} submissions took {length} predicted; {near} were within 10 %"))
}

fn waits(report: &Report) -> Option<String> {
    let seen: Vec<_> = report.waits.iter().filter_map(|wait| Some((wait, wait.waited_s?))).collect();
    let within = seen.iter().filter(|(wait, waited)| (wait.q10_s..=wait.q90_s).contains(waited)).count();
    let later = seen.iter().filter(|(wait, waited)| *waited > wait.q90_s).count();
    (!seen.is_empty()).then(|| {
        format!(
            "{within} of {} starts within the 80 % interval, {later} later, {} earlier",
            seen.len(),
            seen.len() - within - later
        )
    })
}

fn requests(report: &Report) -> Option<String> {
    if report.kind != ReportKind::When {
        return None;
    }
    let chosen = report.options.iter().filter(|option| option.chosen);
    let text = chosen.map(|option| {
        let partition = option.partition.as_ref().map_or_else(String::new, |name| format!(" in {name}"));
        let done = option
            .mean_finish_s
            .map_or_else(String::new, |mean| format!(", done in {} on average", duration(Seconds(mean))));
        format!("{}: {} {}{partition}{done}", option.job, option.gpus, option.gpu_type)
    });
    let text: Vec<String> = text.collect();
    (!text.is_empty()).then(|| text.join("\n"))
}
