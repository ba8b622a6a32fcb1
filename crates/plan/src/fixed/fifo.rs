//! Jobs in order of arrival, without preemption: `fifo`, `fifo-het`, `fifo-by-name` and `yarn-cs`.

use crate::kit::Want;
use crate::kit::by_arrival;
use crate::kit::{Rates, SchedulingState, fastest};
use crate::{Budget, Entry, Knowledge, Make, Plan, Policy, PolicyError, Problem, Repacking};

pub(crate) const FIFO: Entry = Entry {
    name: "fifo",
    make: Make::Policy { make: |_| Ok(Fifo::PLAIN.policy()), watched: false },
    objectives: &[],
    flags: &[],
    knows: &[],
    knows_replicas: true,
};

pub(crate) const FIFO_HET: Entry = Entry {
    name: "fifo-het",
    make: Make::Policy { make: |_| Ok(Fifo::FASTEST.policy()), watched: false },
    knows: &[Knowledge::Speeds],
    ..FIFO
};

pub(crate) const FIFO_BY_NAME: Entry = Entry {
    name: "fifo-by-name",
    make: Make::Policy { make: |_| Ok(Fifo::BY_NAME.policy()), watched: false },
    ..FIFO
};

pub(crate) const YARN_CS: Entry = Entry {
    name: "yarn-cs",
    make: Make::Policy { make: |_| Ok(Fifo::PASSING.policy()), watched: false },
    ..FIFO
};

/// A variant of FIFO.
#[derive(Clone, Copy)]
struct Fifo {
    name: &'static str,
    takes: TypeChoice,
    /// Whether later jobs may overtake a job that does not fit.
    passes: bool,
}

/// The type that a job uses among the free ones.
#[derive(Clone, Copy)]
enum TypeChoice {
    /// The type with the most free GPUs.
    MostFree,
    Fastest,
    /// The last type by name, as in Gavel's simulator. Its FIFO is meant to draw a type at random, but takes
    /// the last one of its loop.
    LastByName,
}

impl Fifo {
    const PLAIN: Self = Self { name: "fifo", takes: TypeChoice::MostFree, passes: false };
    const FASTEST: Self = Self { name: "fifo-het", takes: TypeChoice::Fastest, passes: false };
    const BY_NAME: Self = Self { name: "fifo-by-name", takes: TypeChoice::LastByName, passes: false };
    const PASSING: Self = Self { name: "yarn-cs", takes: TypeChoice::MostFree, passes: true };

    fn policy(self) -> Box<dyn Policy> {
        Box::new(FifoQueue { rule: self, state: SchedulingState::default() })
    }

    fn choose(self, problem: &Problem, rates: &Rates, room: &[u32]) -> Option<usize> {
        let usable =
            |&gpu_type: &usize| rates.speeds[gpu_type] > 0.0 && room[gpu_type] >= rates.gpus(gpu_type);
        let usable = (0..room.len()).filter(usable);
        match self.takes {
            TypeChoice::MostFree => usable.max_by_key(|&gpu_type| room[gpu_type]),
            TypeChoice::Fastest => fastest(rates, room, None),
            TypeChoice::LastByName => usable.max_by_key(|&gpu_type| &problem.gpu_types[gpu_type]),
        }
    }
}

struct FifoQueue {
    rule: Fifo,
    state: SchedulingState,
}

impl Policy for FifoQueue {
    fn name(&self) -> &'static str {
        self.rule.name
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let Self { rule, state } = self;
        state.sync(problem, &|model, _| by_arrival(model.progress.arrival));
        let mut room = state.floor.idle.clone();
        let mut wants = Vec::new();
        let mut merge = state.line.merge();
        while let Some(next) = merge.next(&state.line) {
            let rates = state.rates(next.job);
            match rule.choose(problem, rates, &room) {
                Some(gpu_type) => {
                    room[gpu_type] -= rates.gpus(gpu_type);
                    wants.push(Want::place(next.job, state.counts(next.job, gpu_type)));
                }
                // A job that never fits, no matter which jobs end, must not block the others forever.
                None if rule.passes || rates.best <= 0.0 => merge.drop_shape(&next),
                None => break,
            }
        }
        Ok(Plan { changes: state.floor.carry_out(problem, wants, Repacking::Off), ..Plan::default() })
    }
}
