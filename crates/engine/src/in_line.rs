//! Pending requests of `watch --queue`: their spare tables, the questions about them, their updates.

use crate::carry::Carrier;
use crate::mark::intend;
use crate::{
    Action, Amendment, Attempt, Inquiry, Intent, Kind, Stage, State, Submission, Then, Tracked, Wanted,
    named_ranks,
};
use hsched_model::{Cluster, Node, PlacedRank, Seconds, SpeedBasis, Terms};
use hsched_plan::{Basis, Decision, Placement, Problem, Prospect};

impl Carrier<'_> {
    /// Returns a submission as one that others may join, and that can be changed while it waits.
    pub(super) fn in_line(
        &self,
        intent: Intent,
        tracked: &Tracked,
        (job, placement): (usize, &Placement),
    ) -> Intent {
        let first = tracked.phase.submissions().iter().find(|own| own.attempt.race);
        let way = self.prospect(job, placement).filter(|own| own.anew.is_some()).map(|own| own.anew_way);
        let problem = &self.view.problem;
        let basis = placement.basis(&problem.jobs[job]);
        let run = placement.jct(tracked.rest().epochs);
        Intent {
            race: true,
            joins: first.map(|own| own.attempt.race_run().to_owned()),
            follows: first.and_then(|own| own.attempt.follows.clone()),
            terms: Some(self.terms(tracked, way, (Kind::of(&named_ranks(problem, placement)), run, basis))),
            spares: if self.rules.pinned || tracked.past.iter().any(|past| past.attempt.cannot_start()) {
                Vec::new()
            } else {
                spares((problem, job), placement, (self.cluster, self.goes_elsewhere(tracked)))
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
        let way = self.prospect(job, placement).map(|own| own.in_place_way);
        let run = placement.jct(rest.epochs);
        let basis = placement.basis(&problem.jobs[job]);
        let terms = self.terms(tracked, way, (Some(kind.clone()), run, basis));
        let walltime = terms.walltime(&rest, run, &self.rules.defaults);
        let needs = self.rules.defaults.rank_needs(&rest);
        let amendment = Amendment {
            kind: Some(kind),
            ranks,
            epoch: Seconds(placement.epoch.total()),
            communication: Seconds(placement.epoch.comm),
            minutes: walltime.minutes,
            cpus: needs.cpus,
            memory: needs.memory,
            pieces: walltime.cut(tracked.resumes()),
            terms: self.goes_elsewhere(tracked).then_some(terms),
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
            let basis = option.basis(&extract.problem.jobs[0]);
            let run = option.jct(rest.epochs);
            let ways = 0..self.ways(tracked).len();
            let asks = |way| (way, self.terms(tracked, Some(way), (None, run, basis)));
            let suits = |(_, terms): &(usize, Terms)| self.suits(tracked, terms, (Some(&kind), run));
            let ways: Vec<(usize, Terms)> = ways.map(asks).filter(suits).collect();
            let own = changeable(tracked, &kind);
            let minutes = |terms: &Terms| terms.walltime(&rest, run, &self.rules.defaults).minutes;
            let is_there = |terms: &Terms| {
                let others = tracked.phase.submissions().iter().filter(|other| Some(*other) != own);
                { others }.any(|other| is_request(&other.attempt, (&kind, terms), &minutes))
            };
            let there: Vec<usize> =
                ways.iter().filter(|(_, terms)| is_there(terms)).map(|(way, _)| *way).collect();
            let in_place = own.filter(|_| there.len() < ways.len()).and_then(|own| own.attempt.job_id);
            Some(Wanted { kind, run, ways, in_place, there })
        };
        let options = hsched_plan::options(&extract.problem, 0).iter().filter_map(wanted).collect();
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

    /// Returns what a request for some GPUs and so long a run asks of the queue: what its way says, else what was chosen at the first
    /// one, else the first way whose limit suits the job.
    fn terms(
        &self,
        tracked: &Tracked,
        way: Option<usize>,
        (kind, run, basis): (Option<Kind>, Seconds, SpeedBasis),
    ) -> Terms {
        let (mut ways, at_least) = (self.ways(tracked), tracked.least_limit());
        let before = || tracked.phase.submissions().iter().find_map(|own| own.attempt.terms.clone());
        let known = if self.goes_elsewhere(tracked) && way.is_some() { None } else { before() };
        let suits = |way: &Terms| {
            self.suits(tracked, &Terms { basis, at_least, ..way.clone() }, (kind.as_ref(), run))
        };
        let known_way = way.filter(|way| *way < ways.len());
        let number = known_way.or_else(|| ways.iter().position(suits)).unwrap_or(0);
        Terms { basis, at_least, ..known.unwrap_or_else(|| ways.swap_remove(number)) }
    }

    /// Returns whether a run of what is left of a job may have the limit that these terms allow: a job that cannot go on after it must be
    /// done by then, on GPUs that the partitions of these terms have.
    fn suits(&self, tracked: &Tracked, terms: &Terms, (kind, run): (Option<&Kind>, Seconds)) -> bool {
        let whole = || terms.walltime(&tracked.rest(), run, &self.rules.defaults).suits(false);
        tracked.resumes() || whole() && kind.is_none_or(|kind| self.reaches(terms, kind))
    }

    /// Returns whether a partition of these terms has so many nodes with such GPUs.
    fn reaches(&self, terms: &Terms, kind: &Kind) -> bool {
        let Some(names) = &terms.partition else { return true };
        let has = |node: &&Node, name: &str| {
            let gpus = node.gpus.iter().filter(|stock| stock.gpu_type == kind.gpu_type);
            let is_in = node.partitions.is_empty() || node.partitions.contains(name);
            is_in && gpus.map(|stock| stock.total).sum::<u32>() >= kind.per_node
        };
        let count = |name: &str| self.cluster.nodes.iter().filter(|node| has(node, name)).count();
        names.split(',').any(|name| count(name.trim()) >= kind.nodes as usize)
    }

    /// Returns the accounts and partitions that a job may go to; there is always one.
    fn ways(&self, tracked: &Tracked) -> Vec<Terms> {
        let mut ways = self.cluster.ways(&tracked.job, &self.rules.defaults);
        if self.rules.pinned {
            // The nodes are chosen already.
            ways.truncate(1);
        }
        ways
    }

    /// Returns whether requests of a job may go to another account or partition.
    fn goes_elsewhere(&self, tracked: &Tracked) -> bool {
        self.cluster.leaves_ways(&tracked.job, &self.rules.defaults)
    }

    /// Returns what the world has said of the request for some GPUs.
    fn prospect(&self, job: usize, placement: &Placement) -> Option<Prospect> {
        let problem = &self.view.problem;
        let outlook = problem.outlooks.iter().flatten().find(|own| own.job == job)?;
        let kind = Kind::of(&named_ranks(problem, placement))?;
        let extract = problem.extract(&[job], Basis::Line);
        let options = hsched_plan::options(&extract.problem, 0);
        let is_this =
            |option: &Placement| Kind::of(&named_ranks(&extract.problem, option)).as_ref() == Some(&kind);
        outlook.options.get(options.iter().position(is_this)?).copied()
    }
}

/// Returns the other ranks that a script gets tables for: GPUs of the same type in other numbers, and in the same where the job may go
/// elsewhere.
///
/// Slurm says of GPUs without a type only how many it gave: these have none.
#[must_use]
pub fn spares(
    (problem, job): (&Problem, usize),
    placement: &Placement,
    (cluster, goes_elsewhere): (&Cluster, bool),
) -> Vec<Vec<PlacedRank>> {
    let ranks = named_ranks(problem, placement);
    let is_untyped = |rank: &PlacedRank| cluster.node(&rank.node).is_some_and(|node| node.untyped.is_some());
    let Some(own) = Kind::of(&ranks).filter(|_| !ranks.iter().any(is_untyped)) else { return Vec::new() };
    let extract = problem.extract(&[job], Basis::Line);
    let all = hsched_plan::options(&extract.problem, 0);
    let is_other = |ranks: &Vec<PlacedRank>| {
        Kind::of(ranks).is_some_and(|kind| kind.gpu_type == own.gpu_type && (goes_elsewhere || kind != own))
    };
    all.iter().map(|option| named_ranks(&extract.problem, option)).filter(is_other).collect()
}

/// Returns whether a submission asks for these GPUs, and its account, partitions and limit leave nothing that these terms add.
fn is_request(attempt: &Attempt, (kind, terms): (&Kind, &Terms), minutes: &dyn Fn(&Terms) -> u64) -> bool {
    let amendment = attempt.amendment.as_ref();
    let own_kind = amendment.and_then(|to| to.kind.clone()).or_else(|| Kind::of(&attempt.ranks));
    let own = amendment.and_then(|to| to.terms.as_ref()).or(attempt.terms.as_ref());
    let has = |names: &str, name: &str| names.split(',').any(|own| own.trim() == name.trim());
    own_kind.as_ref() == Some(kind)
        && own.is_none_or(|own| {
            let is_within = match (&own.partition, &terms.partition) {
                (Some(all), Some(names)) => names.split(',').all(|name| has(all, name)),
                (all, names) => all == names,
            };
            own.account == terms.account && is_within && minutes(own) == minutes(terms)
        })
}

/// Returns the pending submission of a job that can be changed to ask for these GPUs: its script has a table for them.
fn changeable<'t>(tracked: &'t Tracked, kind: &Kind) -> Option<&'t Submission> {
    let can = |own: &&Submission| {
        let Submission { attempt, stage } = own;
        *stage == Stage::Pending && attempt.amendment.is_none() && attempt.tables.contains(kind)
    };
    tracked.phase.submissions().iter().find(can)
}
