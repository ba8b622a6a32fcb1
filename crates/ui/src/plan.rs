//! A plan as a table: the GPUs of each job, its times, and why jobs wait.

use hsched_model::number::to_f64;
use std::fmt::Write as _;

use crate::quantity::{duration, percent};
use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_model::{Job, Seconds, hostlist};
use hsched_plan::{
    Bound, CheckedPlan, Deadlines, Due, Dues, FewerGpus, JobModel, Objective, Placement, PlanFigures,
    Problem, Quality, Rank, Slot, Verdict, advice,
};

/// A job of the plan, or all copies of one training.
struct PlanEntry<'a> {
    jobs: &'a [Job],
    models: &'a [JobModel],
    verdicts: &'a [Verdict],
}

/// Returns the plan's summary, its table, and the unplaced jobs and unused GPU types with reasons; `jobs` are
/// those of the problem.
pub fn plan_table(
    jobs: &[Job],
    problem: &Problem,
    plan: &CheckedPlan,
    policy: &str,
    proven: Option<&Bound>,
    notes: &[String],
    terminal: Terminal,
) -> String {
    let mut text = summary(problem, plan, policy, proven);
    let has_deadlines = problem.jobs.iter().any(|job| job.aims.deadline.is_some());
    let mut headings = vec![
        ("JOB", Align::Left),
        ("GPUS", Align::Left),
        ("BATCHES", Align::Left),
        ("EPOCH", Align::Right),
        ("COMM", Align::Right),
        ("DONE IN", Align::Right),
    ];
    headings.extend(has_deadlines.then_some(("DEADLINE", Align::Left)));
    let mut table = Table::new(&headings);
    let entries = PlanEntry::all(jobs, problem, plan);
    for entry in &entries {
        if let Some(cells) = entry.cells(problem) {
            table.row(cells.into_iter().take(headings.len()));
        }
    }
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table.show(terminal));
    }
    let mut remarks: Vec<String> = entries.iter().flat_map(|entry| entry.remarks(problem)).collect();
    remarks.extend(advice(problem, plan).iter().map(|advice| fewer(problem, advice)));
    remarks.extend(notes.iter().cloned());
    if !remarks.is_empty() {
        text.push('\n');
    }
    for remark in remarks {
        let _ = writeln!(text, "{}", wrap(&remark, terminal.width(), "  "));
    }
    text
}

impl<'a> PlanEntry<'a> {
    /// Returns all jobs; copies of one training are adjacent, in the order of their file.
    fn all(jobs: &'a [Job], problem: &'a Problem, plan: &'a CheckedPlan) -> Vec<Self> {
        let mut begin = 0;
        let entry = |jobs: &'a [Job]| {
            let range = begin..begin + jobs.len();
            begin = range.end;
            Self { jobs, models: &problem.jobs[range.clone()], verdicts: &plan.verdicts()[range] }
        };
        jobs.chunk_by(|a, b| a.training().is_some() && a.training() == b.training()).map(entry).collect()
    }

    fn name(&self) -> &str {
        self.jobs[0].training().unwrap_or(self.jobs[0].name.as_str())
    }

    fn placed(&self) -> impl Iterator<Item = &'a Placement> {
        self.verdicts.iter().filter_map(Verdict::placement)
    }

    /// Returns the job's row, with the deadline last; `None` if none of its copies is placed.
    fn cells(&self, problem: &Problem) -> Option<[String; 7]> {
        let (first, job) = (self.placed().next()?, &self.models[0]);
        let mut slots: Vec<Slot> = Vec::new();
        for slot in self.placed().flat_map(|placement| &placement.slots) {
            match slots
                .iter_mut()
                .find(|candidate| (candidate.node, candidate.gpu_type) == (slot.node, slot.gpu_type))
            {
                Some(same) => same.count += slot.count,
                None => slots.push(*slot),
            }
        }
        if self.jobs.len() > 1 {
            slots.sort_by_key(|slot| (slot.gpu_type, slot.node));
        }
        let heads: Vec<Rank> = job.ranks_by_replica(&first.ranks).iter().map(|ranks| ranks[0]).collect();
        let own_batches = batches(&heads);
        let batches = match (self.jobs[0].training(), self.placed().count()) {
            (None, _) => own_batches,
            (Some(_), 1) => format!("1 copy of {own_batches}"),
            (Some(_), count) => format!("{count} copies of {own_batches}"),
        };
        let done = together(self.placed().map(|placement| placement.jct(job.epochs).0));
        Some([
            self.name().to_owned(),
            gpu_list(problem, job, &slots),
            batches,
            duration(Seconds(together(self.placed().map(|placement| placement.epoch.total())))),
            format!("{:.0} %", 100.0 * first.epoch.comm / first.epoch.total()),
            duration(Seconds(done)),
            due(problem, job, Seconds(done)),
        ])
    }

    /// Returns remarks for people; for copies those of the first one, and how many wait.
    fn remarks(&self, problem: &Problem) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.placed().next().is_some() {
            remarks.extend(self.models[0].notes(problem));
        }
        let waiting: Vec<&String> = self.verdicts.iter().filter_map(waits).collect();
        if let Some(reason) = waiting.first() {
            remarks.push(match (self.jobs.len(), waiting.len()) {
                (all, 1) if all > 1 => format!("1 of {all} copies waits: {reason}"),
                (all, some) if some < all => format!("{some} of {all} copies wait: {reason}"),
                _ => format!("waits: {reason}"),
            });
        }
        let rejected = self.verdicts.iter().find_map(|verdict| match verdict {
            Verdict::Reject { reason } => Some(format!("rejected: {reason}")),
            Verdict::Place(_) | Verdict::Defer { .. } => None,
        });
        remarks.extend(rejected);
        if self.placed().count() > 1 {
            let counted = "the row shows the time of its copies together; the summary counts each copy \
                as a job that trains alone";
            remarks.push(counted.to_owned());
        }
        remarks.iter().map(|remark| format!("{}: {remark}", self.name())).collect()
    }
}

fn waits(verdict: &Verdict) -> Option<&String> {
    match verdict {
        Verdict::Defer { reason } => Some(reason),
        Verdict::Place(_) | Verdict::Reject { .. } => None,
    }
}

/// Returns the joint time of copies that each need a given time alone, without merging.
fn together(times: impl Iterator<Item = f64>) -> f64 {
    let times: Vec<f64> = times.collect();
    if let [only] = times[..] { only } else { 1.0 / times.iter().map(|time| 1.0 / time).sum::<f64>() }
}

/// Returns the deadline of a job, and whether it is late.
fn due(problem: &Problem, job: &JobModel, done: Seconds) -> String {
    let Some(deadline) = job.aims.deadline else { return "-".to_owned() };
    let within = Seconds(deadline.0 - problem.now.0);
    let late = if (Due { within: within.0, late: 0.0 }).is_late(done.0) { ", late" } else { "" };
    if within.0 > 0.0 { format!("in {}{late}", duration(within)) } else { format!("passed{late}") }
}

/// Returns what is proven about deadlines and times if the objective's gap is not zero.
fn with_deadlines(problem: &Problem, plan: &CheckedPlan, bound: &Bound, outcome: &PlanFigures) -> String {
    let dues = Dues::of(problem);
    let placed = plan.placed().len();
    let (least, late) = (dues.least_late(bound.lower, placed), dues.late_in(problem, plan));
    if least < late {
        return match least {
            0 => "the number of late jobs, then the mean completion time, is not proven optimal".to_owned(),
            1 => "at least 1 job is late in any plan".to_owned(),
            _ => format!("at least {least} jobs are late in any plan"),
        };
    }
    let (count, all) = (to_f64(late), to_f64(placed));
    // Without the late jobs' part, the bound limits the mean completion time of any plan with as few late
    // jobs.
    let mean = bound.lower - count / all * dues.late().unwrap_or(0.0);
    let near = if mean > 0.0 {
        format!("at most {} above the optimum", percent(outcome.mean_jct / mean - 1.0))
    } else {
        "not proven optimal".to_owned()
    };
    format!("the number of late jobs is proven optimal, the mean completion time is {near}")
}

/// Says that a job would finish sooner on fewer of its GPUs, and how to request that.
fn fewer(problem: &Problem, advice: &FewerGpus) -> String {
    let job = &problem.jobs[advice.job];
    let count: u32 = job.replicas_by_type(&advice.slots).iter().flatten().sum();
    let key = if job.replica.is_some() { "max_replicas" } else { "max_gpus" };
    let epoch = duration(Seconds(advice.epoch));
    let gpus = gpu_list(problem, job, &advice.slots);
    format!(
        "{}: {gpus} alone would take {epoch} per epoch; set {key}: {count} to leave the rest to other jobs",
        job.name
    )
}

fn summary(problem: &Problem, plan: &CheckedPlan, policy: &str, proven: Option<&Bound>) -> String {
    let placements: Vec<&Placement> = plan.verdicts().iter().filter_map(Verdict::placement).collect();
    let used: usize = placements.iter().map(|placement| placement.ranks.len()).sum();
    let offered: u32 = problem.offered().iter().sum();
    let (placed, all) = (placements.len(), problem.jobs.len());
    let jobs = if placed == all { format!("{all}") } else { format!("{placed} of {all}") };
    let plural = if all == 1 { "" } else { "s" };
    let mut text = format!("{policy}: {jobs} job{plural} on {used} of {offered} GPUs\n");
    let mut is_unproven = false;
    if let Some(outcome) = PlanFigures::of(problem, plan) {
        let (mean, last) = (duration(Seconds(outcome.mean_jct)), duration(Seconds(outcome.makespan)));
        let _ =
            writeln!(text, "mean completion time {mean}, makespan {last}, fairness {:.3}", outcome.fairness);
        if let Some(bound) = proven {
            let what = match problem.objective {
                Objective::MeanJct => "the mean completion time",
                Objective::Weighted => "the weighted mean completion time",
                Objective::Makespan => "the makespan",
                Objective::Deadlines => "the number of late jobs, then the mean completion time,",
            };
            let quality = Quality::new(bound, &outcome);
            let near = match quality {
                Some(quality) if quality.is_optimal() => format!("{what} is proven optimal"),
                _ if problem.objective == Objective::Deadlines => {
                    with_deadlines(problem, plan, bound, &outcome)
                }
                Some(quality) => format!("{what} is at most {} above the optimum", percent(quality.gap)),
                None => format!("{what} is not proven optimal"),
            };
            let whose = if placed == all { "" } else { " for the jobs placed" };
            let _ = writeln!(text, "{near}{whose}");
            is_unproven = policy == "optimal" && !quality.is_some_and(Quality::is_optimal);
        }
    }
    if let Some(Deadlines { met, all }) = Deadlines::of(problem, plan) {
        let _ = writeln!(text, "{met} of {all} deadlines met");
    }
    if plan.plan().stopped {
        let unproven = if is_unproven { "not proven optimal: " } else { "" };
        let _ =
            writeln!(text, "{unproven}the search ran out of time; a larger --budget may find a better plan");
    } else if is_unproven {
        text.push_str("not proven optimal: the search through all better plans would take too many steps\n");
    }
    text
}

/// Returns the GPUs of slots, in their order; adjacent slots with the same type and number share an entry.
/// Types with an estimated speed are marked.
fn gpu_list(problem: &Problem, job: &JobModel, slots: &[Slot]) -> String {
    let same = slots.chunk_by(|a, b| (a.gpu_type, a.count) == (b.gpu_type, b.count));
    let entry = |slots: &[Slot]| {
        let count: u32 = slots.iter().map(|slot| slot.count).sum();
        let names: Vec<&str> = slots.iter().map(|slot| problem.nodes[slot.node].name.as_str()).collect();
        let gpu_type = slots[0].gpu_type;
        let mark = if job.is_estimated(gpu_type) { " (estimated)" } else { "" };
        format!("{count} {} {}{mark}", problem.gpu_types[gpu_type], hostlist::compress(names))
    };
    same.map(entry).collect::<Vec<_>>().join(", ")
}

/// Returns the batches in rank order, with equal neighbours combined.
fn batches(ranks: &[Rank]) -> String {
    let same = ranks.chunk_by(|a, b| a.batch == b.batch);
    let entry = |run: &[Rank]| match run {
        [rank] => rank.batch.to_string(),
        _ => format!("{}x{}", run.len(), run[0].batch),
    };
    same.map(entry).collect::<Vec<_>>().join(", ")
}
