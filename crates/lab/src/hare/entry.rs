//! The registry entry of `hare`.

use crate::hare::{Assign, Hare, TasksOfHare};
use crate::{LabPolicy, TaskMaker};
use hsched_plan::{Entry, Flag, FlagKind, Knowledge, Make, named};

pub(crate) const HARE: LabPolicy = LabPolicy {
    entry: Entry {
        name: "hare",
        make: Make::Policy { make: |_| Ok(Box::<Hare>::default()), watched: true },
        objectives: &[],
        flags: &[],
        knows: &[Knowledge::Lengths, Knowledge::Speeds, Knowledge::Arrivals],
        knows_replicas: false,
    },
    tasks: Some(TaskMaker {
        flags: &[&ASSIGN],
        make: |parameters| {
            let assign = parameters.value(&ASSIGN, |text| named(&Assign::NAMES, text))?;
            Ok(Box::new(TasksOfHare { assign }))
        },
    }),
};

const ASSIGN: Flag = Flag {
    name: "assign",
    value_name: "HOW",
    kind: FlagKind::Choice(&["available", "finish", "insert"]),
    usual: Some("finish"),
    help: "hare: whether a task goes to the GPU that is free first (available), to the GPU on which it ends first \
           (finish), or also into gaps between earlier tasks (insert)",
};
