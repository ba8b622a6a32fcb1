//! A round of `hadar` as a policy.

use crate::hadar::cells::Cells;
use crate::hadar::facts::facts;
use crate::hadar::find::Market;
use crate::hadar::job::{HadarJob, HadarParameters};
use crate::hadar::layers::{ServedJobs, best};
use crate::hadar::prices::CellPrices;
use hsched_model::Seconds;
use hsched_plan::kit::Floor;
use hsched_plan::{Budget, Decision, Placement, Plan, Policy, PolicyError, Problem, Sharing, Slot};

/// The policy.
pub(crate) struct Hadar {
    parameters: HadarParameters,
    floor: Floor,
}

impl Hadar {
    /// Returns the policy.
    pub(crate) fn new(parameters: HadarParameters) -> Self {
        Self { parameters, floor: Floor::default() }
    }
}

impl Policy for Hadar {
    fn name(&self) -> &'static str {
        "hadar"
    }

    fn parameters(&self) -> String {
        let usual = HadarParameters::default();
        let HadarParameters { sharing, utility, worth, .. } = self.parameters;
        if (sharing, utility, worth) == (usual.sharing, usual.utility, usual.worth) {
            return String::new();
        }
        format!("{sharing:?}, {utility:?}, {worth:?}").to_lowercase()
    }

    fn round(&self) -> Option<Seconds> {
        Some(self.parameters.round)
    }

    fn starts_cost(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        self.parameters.sharing
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        self.floor.sync(problem);
        let cells = Cells::new(problem, self.floor.sizes());
        let now = problem.now.0;
        let mut plan = Plan { wake: Some(problem.now.after(self.next_round(now))), ..Plan::default() };
        let mut queue = Vec::new();
        for number in problem.present().filter(|job| problem.jobs[*job].progress.is_decided_on()) {
            match HadarJob::new(number, &problem.jobs[number], &cells, problem.now) {
                Some(job) if fits(&job, &cells) => queue.push(job),
                _ => plan
                    .changes
                    .push((number, Decision::Reject { why: "it never fits on this cluster".to_owned() })),
            }
        }
        if queue.is_empty() {
            return Ok(plan);
        }
        queue.sort_by(|a, b| {
            let urgency = |job: &HadarJob| job.urgency(now, &self.parameters);
            let order = urgency(b).total_cmp(&urgency(a));
            order.then(a.arrival.total_cmp(&b.arrival)).then(a.number.cmp(&b.number))
        });
        let prices = CellPrices::new(&cells, &queue, now, &self.parameters);
        let market = Market::new(&cells, &prices, &queue, now, &self.parameters);
        let answer = best(&market, &queue);
        self.carry_out(problem, &market, &queue, &answer, &mut plan);
        plan.round = Some(facts(problem, &market, &queue, &answer));
        Ok(plan)
    }
}

impl Hadar {
    /// Returns the time until the next round.
    fn next_round(&self, now: f64) -> Seconds {
        let round = self.parameters.round.0;
        Seconds(((now / round + 1e-9).floor() + 1.0) * round - now)
    }

    /// Adds the decisions to the plan; jobs that wait come first, because some of them release GPUs.
    fn carry_out(
        &self,
        problem: &Problem,
        market: &Market<'_>,
        queue: &[HadarJob],
        answer: &ServedJobs,
        plan: &mut Plan,
    ) {
        let mut taken = vec![0; market.cells.list.len()];
        let mut places = Vec::new();
        let mut served = answer.served.iter().peekable();
        for (place, job) in queue.iter().enumerate() {
            let Some((_, allocation)) = served.next_if(|(position, _)| *position == place) else {
                let why = match market.find(job, &taken) {
                    None => "no GPUs left".to_owned(),
                    Some(allocation) if allocation.terms.payoff <= 0.0 => {
                        format!(
                            "its price {:.4} exceeds its utility \
                            {:.4}",
                            allocation.terms.cost, allocation.terms.utility
                        )
                    }
                    Some(_) => "its GPUs are worth more to other jobs".to_owned(),
                };
                plan.changes.push((job.number, Decision::Defer { why }));
                continue;
            };
            allocation.parts.iter().for_each(|&(cell, count)| taken[cell] += count);
            let slot = |&(cell, count): &(usize, u32)| {
                let cell = market.cells.list[cell];
                Slot { node: cell.node, gpu_type: cell.gpu_type, count }
            };
            let slots: Vec<Slot> = allocation.parts.iter().map(slot).collect();
            let placement = Placement::new(problem, job.number, &slots, self.parameters.sharing);
            places.push((
                job.number,
                match placement {
                    Some(placement) => Decision::place(placement),
                    None => Decision::Defer { why: "its batch cannot be divided over these GPUs".to_owned() },
                },
            ));
        }
        plan.changes.extend(places);
    }
}

/// Returns whether a job can ever get its GPUs.
fn fits(job: &HadarJob, cells: &Cells) -> bool {
    let usable = cells.list.iter().filter(|cell| job.rates[cell.gpu_type].is_some());
    usable.map(|cell| cell.count).sum::<u32>() >= job.gpus
}
