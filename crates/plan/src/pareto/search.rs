//! The search: the policy places the jobs repeatedly, with other weights and on fewer GPUs.

use std::collections::BTreeMap;

use crate::fairness::equal_share_times;
use crate::pareto::proof::{MeanBound, ParetoProof};
use crate::pareto::thrift::Costs;
use crate::pricing::Rings;
use crate::{
    Bound, Budget, CheckedPlan, Decision, Eligibility, JobModel, Objective, Plan, PlanFigures, Policy,
};
use crate::{PolicyError, Problem, checked};
use hsched_model::number::to_f64;

/// A plan that no other plan of the list improves in mean completion time, fairness and cost together.
#[derive(Clone, Debug)]
pub struct ParetoPlan {
    pub plan: CheckedPlan,
    /// Mean completion time of the placed jobs, in seconds.
    pub mean: f64,
    /// Jain's index of eq. 33.
    pub fairness: f64,
    /// GPU-hours at their prices; `None` without prices.
    pub cost: Option<f64>,
    /// A lower bound on the mean completion time of all plans for these jobs with at least the same fairness,
    /// in seconds.
    pub bound: f64,
    /// The prices and weights that prove the bound. `root` is the part that they prove alone. The weights are
    /// scaled so that the bound is not divided by their sum.
    pub certificate: Bound,
}

/// Sequence of strengths with which jobs far from an equal share get more weight.
const PULLS: [f64; 8] = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];

/// Number of plans per strength; each starts from the previous completion times.
const ROUNDS: usize = 3;

/// Sequence of maximum costs of a job relative to its cheapest option.
const THRIFTS: [f64; 7] = [1.8, 1.4, 1.2, 1.1, 1.05, 1.02, 1.0];

/// Minimum weight relative to the uniform weight.
const LEAST_WEIGHT: f64 = 1e-3;

/// Number of significant digits of a criterion after the first; smaller differences are ignored.
const DIGITS: usize = 8;

/// Fraction of the time that is spent on the plan with the lowest mean and its proof.
const FIRST: f64 = 0.3;

/// The search in progress.
struct FrontSearch<'a> {
    problem: &'a Problem,
    policy: &'a mut dyn Policy,
    prices: Option<&'a [f64]>,
    /// The plan with the lowest mean; all other plans place the same jobs.
    first: CheckedPlan,
    jobs: Vec<usize>,
    found: Vec<FrontPlan>,
    proofs: Vec<MeanBound>,
}

/// A plan and its figures.
struct FrontPlan {
    plan: CheckedPlan,
    /// Completion time of each placed job, in seconds.
    times: Vec<f64>,
    mean: f64,
    fairness: f64,
    cost: Option<f64>,
}

/// Returns plans for the jobs that the policy places first, by mean completion time; empty if it places none
/// or proves no bound.
///
/// `settled` are decisions on jobs outside the policy. `prices` has the price of a GPU-hour by type. `stop`
/// receives a fraction of the total time and returns whether it has passed; the search then ends with the
/// plans so far. The policy must prove bounds and minimise the mean completion time.
///
/// # Errors
/// If the policy does not support the problem, or violates its rules.
pub fn pareto(
    problem: &Problem,
    policy: &mut dyn Policy,
    settled: Vec<(usize, Decision)>,
    prices: Option<&[f64]>,
    stop: &dyn Fn(f64) -> bool,
) -> Result<Vec<ParetoPlan>, PolicyError> {
    let mut plan = policy.decide(problem, &Budget::until(&|| stop(FIRST)))?;
    plan.changes.extend(settled);
    let bound = plan.bound.clone();
    let first = checked(policy.name(), problem, plan)?;
    let jobs = first.placed();
    let mut search = FrontSearch {
        problem,
        policy,
        prices,
        first: first.clone(),
        jobs,
        found: Vec::new(),
        proofs: Vec::new(),
    };
    search.found.extend(search.figures(first));
    let Some(bound) = bound.filter(|_| !search.found.is_empty()) else { return Ok(Vec::new()) };
    let even = vec![1.0 / to_f64(search.jobs.len()); search.jobs.len()];
    search.proofs.push(MeanBound { weights: even, bound });
    search.towards_fairness(stop)?;
    search.towards_thrift(stop)?;
    Ok(search.best())
}

impl FrontSearch<'_> {
    /// Searches for fairer plans: jobs that take much longer than with an equal share get more weight, and
    /// those that take much less time get less.
    fn towards_fairness(&mut self, stop: &dyn Fn(f64) -> bool) -> Result<(), PolicyError> {
        let shares = equal_share_times(self.problem, &self.jobs);
        let mean_share = shares.iter().sum::<f64>() / to_f64(shares.len());
        let mut times = self.found[0].times.clone();
        let mut weights = vec![1.0; times.len()];
        let rounds = to_f64(PULLS.len() * ROUNDS);
        // Without prices, the search for cheaper plans is skipped.
        let all = if self.prices.is_some() { 0.5 } else { 1.0 - FIRST };
        for (round, &pull) in PULLS.iter().flat_map(|pull| [pull; ROUNDS]).enumerate() {
            let until = FIRST + all * to_f64(round + 1) / rounds;
            if stop(until) {
                continue;
            }
            let ratios: Vec<f64> = times.iter().zip(&shares).map(|(time, share)| time / share).collect();
            let squares: f64 = ratios.iter().map(|ratio| ratio * ratio).sum();
            let level = squares / ratios.iter().sum::<f64>();
            for ((weight, ratio), share) in weights.iter_mut().zip(&ratios).zip(&shares) {
                // The point at which the gradients of mean and fairness balance; only half the way is taken,
                // to avoid oscillation.
                let aim = 1.0 + pull * mean_share / share * (ratio / level - 1.0);
                *weight = (*weight * aim.max(LEAST_WEIGHT)).sqrt().max(LEAST_WEIGHT);
            }
            let weighted =
                self.with_jobs(&|place, job| Some(JobModel { weight: weights[place], ..job.clone() }));
            let Some(weighted) = weighted else { continue };
            let Some((found, bound)) = self.plan(&weighted, &|| stop(until))? else { continue };
            times.clone_from(&found.times);
            self.found.push(found);
            let sum: f64 = weights.iter().sum();
            let weights = weights.iter().map(|weight| weight / sum).collect();
            self.proofs.extend(bound.map(|bound| MeanBound { weights, bound }));
        }
        Ok(())
    }

    /// Searches for cheaper plans: each job is restricted to GPUs on which it costs little.
    fn towards_thrift(&mut self, stop: &dyn Fn(f64) -> bool) -> Result<(), PolicyError> {
        let Some(prices) = self.prices else { return Ok(()) };
        let rings = Rings::new(self.problem);
        let costs = |&job: &usize| Costs::new(self.problem, &self.problem.jobs[job], (&rings, prices));
        let costs: Vec<Costs> = self.jobs.iter().map(costs).collect();
        for (round, &times) in THRIFTS.iter().enumerate() {
            let until = 0.8 + 0.2 * to_f64(round + 1) / to_f64(THRIFTS.len());
            if stop(until) {
                continue;
            }
            let thrifty = self.with_jobs(&|place, job| costs[place].limit(job, times));
            let Some(thrifty) = thrifty else { continue };
            // A bound for fewer GPUs is not a bound for all GPUs.
            let found = self.plan(&thrifty, &|| stop(until))?;
            self.found.extend(found.map(|(found, _)| found));
        }
        Ok(())
    }

    /// Returns the problem of the placed jobs alone, with each job modified by `change`, which gets its index
    /// among the placed jobs.
    fn with_jobs(&self, change: &dyn Fn(usize, &JobModel) -> Option<JobModel>) -> Option<Problem> {
        let mut problem = Problem { objective: Objective::Weighted, ..self.problem.clone() };
        for job in &mut problem.jobs {
            job.weight = 1.0;
            job.progress.waits = Eligibility::Never;
        }
        for (place, &job) in self.jobs.iter().enumerate() {
            problem.jobs[job] = JobModel { weight: 1.0, ..self.problem.jobs[job].clone() };
            problem.jobs[job] = change(place, &problem.jobs[job])?;
        }
        Some(problem)
    }

    /// Returns the policy's plan of a modified problem, checked as a plan of the original one; `None` if it
    /// places fewer jobs.
    fn plan(
        &mut self,
        changed: &Problem,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<(FrontPlan, Option<Bound>)>, PolicyError> {
        let plan = self.policy.decide(changed, &Budget::until(stop))?;
        let bound = plan.bound.clone();
        let is_placed = |job: usize| self.jobs.binary_search(&job).is_ok();
        let placed = plan.changes.into_iter().filter(|(job, _)| is_placed(*job));
        let others = self.first.plan().changes.iter().filter(|(job, _)| !is_placed(*job)).cloned();
        let mut changes: Vec<_> = placed.chain(others).collect();
        changes.sort_by_key(|(job, _)| *job);
        // The bound of the first plan holds for all plans.
        let plan = Plan { changes, ..self.first.plan().clone() };
        let plan = checked(self.policy.name(), self.problem, plan)?;
        if plan.placed() != self.jobs {
            return Ok(None);
        }
        Ok(self.figures(plan).map(|found| (found, bound)))
    }

    fn figures(&self, plan: CheckedPlan) -> Option<FrontPlan> {
        let outcome = PlanFigures::of(self.problem, &plan)?;
        let placement = |&job: &usize| Some((job, plan.verdicts()[job].placement()?));
        let time =
            |(job, placement): (usize, &crate::Placement)| placement.jct(self.problem.jobs[job].epochs).0;
        let placed: Vec<_> = self.jobs.iter().filter_map(placement).collect();
        let times = placed.iter().map(|&placed| time(placed)).collect();
        let cost = self.prices.map(|prices| {
            let rate = |placement: &crate::Placement| -> f64 {
                placement.slots.iter().map(|slot| f64::from(slot.count) * prices[slot.gpu_type]).sum()
            };
            placed.iter().map(|&(job, placement)| time((job, placement)) / 3600.0 * rate(placement)).sum()
        });
        Some(FrontPlan { times, mean: outcome.mean_jct, fairness: outcome.fairness, cost, plan })
    }

    /// Returns the plans that no other plan dominates, sorted by mean completion time.
    fn best(self) -> Vec<ParetoPlan> {
        let shares = equal_share_times(self.problem, &self.jobs);
        let mut kept: Vec<FrontPlan> = Vec::new();
        for found in self.found {
            if kept.iter().any(|other| other.beats(&found)) {
                continue;
            }
            kept.retain(|other| !found.beats(other));
            kept.push(found);
        }
        kept.sort_by(|a, b| a.mean.total_cmp(&b.mean).then(b.fairness.total_cmp(&a.fairness)));
        let proofs = self.proofs;
        let listed = |found: FrontPlan| {
            let proven = proofs.iter().filter_map(|proof| {
                let proven = proof.of_as_fair(&shares, found.fairness)?;
                Some((proof, ParetoProof { mean: proven.mean.min(found.mean), ..proven }))
            });
            let (proof, proven) = proven.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))?;
            let scaled = |values: &[f64]| values.iter().map(|value| value * proven.factor).collect();
            let sum: f64 = proof.bound.weights.iter().sum();
            Some(ParetoPlan {
                mean: found.mean,
                fairness: found.fairness,
                cost: found.cost,
                bound: proven.mean,
                certificate: Bound {
                    lower: proven.mean,
                    root: proven.factor * proof.bound.root,
                    prices: proof.bound.prices.iter().map(|price| price / sum * proven.factor).collect(),
                    replica_prices: replica_prices(&proof.bound, proven.factor / sum),
                    weights: scaled(&proof.weights),
                },
                plan: found.plan,
            })
        };
        kept.into_iter().filter_map(listed).collect()
    }
}

impl FrontPlan {
    /// Returns whether this plan is at least as good as another in every criterion.
    fn beats(&self, other: &Self) -> bool {
        rounded(self.mean) <= rounded(other.mean)
            && rounded(self.fairness) >= rounded(other.fairness)
            && self.cost.zip(other.cost).is_none_or(|(first, cost)| rounded(first) <= rounded(cost))
    }
}

/// Returns the prices of whole replicas, scaled.
fn replica_prices(bound: &Bound, factor: f64) -> Vec<BTreeMap<u32, f64>> {
    let scaled = |prices: &BTreeMap<u32, f64>| {
        prices.iter().map(|(&size, price)| (size, price * factor)).collect::<BTreeMap<u32, f64>>()
    };
    bound.replica_prices.iter().map(scaled).collect()
}

/// Returns a value rounded to [`DIGITS`] significant digits after the first.
fn rounded(value: f64) -> f64 {
    format!("{value:.DIGITS$e}").parse().unwrap_or(value)
}
