//! Jobs in the order of their arrival, never stopped: `fifo`, `fifo-het` and `yarn-cs`.

use crate::policy::fixed::line::by_arrival;
use crate::policy::fixed::{Desk, Rates, fastest};
use crate::policy::floor::Want;
use crate::policy::{Budget, Plan, Policy, PolicyError, Problem, Repacking};

/// One of the kinds of FIFO.
#[derive(Clone, Copy)]
pub(super) struct Fifo {
    name: &'static str,
    /// Whether a job takes the fastest free type, else that with the most free GPUs.
    knows_speeds: bool,
    /// Whether later jobs pass one that finds no room.
    passes: bool,
}

impl Fifo {
    pub(super) const PLAIN: Self = Self { name: "fifo", knows_speeds: false, passes: false };
    pub(super) const FASTEST: Self = Self { name: "fifo-het", knows_speeds: true, passes: false };
    pub(super) const PASSING: Self = Self { name: "yarn-cs", knows_speeds: false, passes: true };

    pub(super) fn policy(self) -> impl Policy {
        Queue { rule: self, desk: Desk::default() }
    }

    fn choose(self, rates: &Rates, room: &[u32]) -> Option<usize> {
        if self.knows_speeds {
            return fastest(rates, room, None);
        }
        let usable = |&gpu_type: &usize| rates.speeds[gpu_type] > 0.0 && room[gpu_type] >= rates.asks;
        (0..room.len()).filter(usable).max_by_key(|&gpu_type| room[gpu_type])
    }
}

struct Queue {
    rule: Fifo,
    desk: Desk,
}

impl Policy for Queue {
    fn name(&self) -> &'static str {
        self.rule.name
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let Self { rule, desk } = self;
        desk.sync(problem, &|model, _| by_arrival(model.standing.arrival));
        let mut room = desk.floor.idle.clone();
        let mut wants = Vec::new();
        let mut merge = desk.line.merge(&[]);
        while let Some(next) = merge.next(&desk.line, &[]) {
            let rates = desk.rates(next.job);
            match rule.choose(rates, &room) {
                Some(gpu_type) => {
                    room[gpu_type] -= rates.asks;
                    wants.push(Want::place(next.job, desk.counts(next.job, gpu_type)));
                }
                // A job that no number of ended jobs helps must not hold up the others for good.
                None if rule.passes || rates.best <= 0.0 => merge.drop_shape(&next),
                None => break,
            }
        }
        Ok(Plan { changes: desk.floor.carry_out(problem, wants, Repacking::Off), ..Plan::default() })
    }
}
