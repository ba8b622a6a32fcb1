//! Requests of jobs that wait in the queue: what they carry so that they can be changed, what must be known of them, their changes.

use crate::engine::carry::Carrier;
use crate::engine::mark::intend;
use crate::engine::{
    Action, Amendment, Inquiry, Intent, Kind, Stage, State, Submission, Then, Tracked, Wanted, named_ranks,
};
use crate::model::{Cluster, PlacedRank, Seconds, Terms};
use crate::policy::{self, Basis, Decision, Placement, Problem};

impl Carrier<'_> {
    /// Returns a submission as one that others may join, and that can be changed while it waits.
    pub(super) fn in_line(
        &self,
        intent: Intent,
        tracked: &Tracked,
        (job, placement): (usize, &Placement),
    ) -> Intent {
        let first = tracked.phase.submissions().iter().find(|own| own.attempt.race);
        let problem = &self.view.problem;
        Intent {
            race: true,
            joins: first.map(|own| own.attempt.race_run().to_owned()),
            follows: first.and_then(|own| own.attempt.follows.clone()),
            terms: Some(self.terms(tracked, (job, problem), placement)),
            spares: if self.rules.pinned || tracked.past.iter().any(|past| past.attempt.cannot_start()) {
                Vec::new()
            } else {
                spares((problem, job), placement, self.cluster)
            },
            ..intent
        }
    }

    /// Returns the change of a pending request in place, where that is decided and a request can be changed so.
    pub(super) fn amend(&self, state: &mut State, job: usize, decision: &Decision) -> Option<Action> {
        let Decision::Adjust { placement, in_place: true, why } = decision else { return None };
        let (tracked, problem) = (self.view.tracked(state, job), &self.view.problem);
        let (rest, ranks) = (tracked.rest(), named_ranks(problem, placement));
        let kind = Kind::of(&ranks)?;
        let own = changeable(tracked, &kind)?;
        let terms = self.terms(tracked, (job, problem), placement);
        let walltime = terms.walltime(&rest, placement.jct(rest.epochs), &self.rules.defaults);
        let needs = self.rules.defaults.rank_needs(&rest);
        let amendment = Amendment {
            kind,
            ranks,
            epoch: Seconds(placement.epoch.total()),
            communication: Seconds(placement.epoch.comm),
            minutes: walltime.minutes,
            cpus: needs.cpus,
            memory: needs.memory,
            pieces: walltime.in_pieces(),
        };
        let (of, job_id) = (own.attempt.key(&tracked.job.name), own.attempt.job_id?);
        let action = Action::Amend { of, job_id, to: Box::new(amendment), why: why.clone() };
        intend(state, &action, Then::GoOn, self.at);
        Some(action)
    }

    /// Returns what to ask the world about all requests of a job.
    pub(super) fn inquiry(&self, state: &State, job: usize) -> Inquiry {
        let tracked = self.view.tracked(state, job);
        let rest = tracked.rest();
        let extract = self.view.problem.extract(&[job], Basis::Line);
        let wanted = |option: &Placement| {
            let kind = Kind::of(&named_ranks(&extract.problem, option))?;
            let (run, terms) = (option.jct(rest.epochs), self.terms(tracked, (0, &extract.problem), option));
            let limit = terms.walltime(&rest, run, &self.rules.defaults).limit();
            let in_place = changeable(tracked, &kind).and_then(|own| own.attempt.job_id);
            Some(Wanted { kind, run, limit, in_place })
        };
        let options = policy::options(&extract.problem, 0).iter().filter_map(wanted).collect();
        let submissions = tracked.phase.submissions();
        let id = |own: &Submission| own.attempt.job_id.filter(|_| own.stage == Stage::Pending);
        Inquiry {
            job,
            pending: submissions.iter().map(id).collect(),
            races: submissions.iter().any(|own| own.attempt.race),
            options,
            rest,
        }
    }

    /// Returns what a request for some GPUs asks of the queue: what was chosen at the first one stands.
    fn terms(&self, tracked: &Tracked, (job, problem): (usize, &Problem), placement: &Placement) -> Terms {
        let model = &problem.jobs[job];
        let is_estimated = placement.is_estimated(model);
        let before = tracked.phase.submissions().iter().find_map(|own| own.attempt.terms.clone());
        let longest = || self.cluster.time_limit(&tracked.job, &self.rules.defaults);
        let before = before.unwrap_or_else(|| Terms {
            account: None,
            partition: None,
            longest: longest(),
            is_estimated,
        });
        Terms { is_estimated, ..before }
    }
}

/// Returns the other ranks that a script gets tables for: GPUs of the same type in other numbers.
///
/// Slurm says of GPUs without a type only how many it gave: these have none.
#[must_use]
pub fn spares(
    (problem, job): (&Problem, usize),
    placement: &Placement,
    cluster: &Cluster,
) -> Vec<Vec<PlacedRank>> {
    let ranks = named_ranks(problem, placement);
    let is_untyped = |rank: &PlacedRank| cluster.node(&rank.node).is_some_and(|node| node.untyped.is_some());
    let Some(own) = Kind::of(&ranks).filter(|_| !ranks.iter().any(is_untyped)) else { return Vec::new() };
    let extract = problem.extract(&[job], Basis::Line);
    let all = policy::options(&extract.problem, 0);
    let is_other = |ranks: &Vec<PlacedRank>| {
        Kind::of(ranks).is_some_and(|kind| kind.gpu_type == own.gpu_type && kind != own)
    };
    all.iter().map(|option| named_ranks(&extract.problem, option)).filter(is_other).collect()
}

/// Returns the pending submission of a job that can be changed to ask for these GPUs: its script has a table for them.
fn changeable<'t>(tracked: &'t Tracked, kind: &Kind) -> Option<&'t Submission> {
    let can = |own: &&Submission| {
        let Submission { attempt, stage } = own;
        *stage == Stage::Pending && attempt.amendment.is_none() && attempt.tables.contains(kind)
    };
    tracked.phase.submissions().iter().find(can)
}
