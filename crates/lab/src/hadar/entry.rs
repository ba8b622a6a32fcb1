//! The registry entry of `hadar`.

use crate::LabPolicy;
use crate::hadar::{Hadar, HadarParameters, Utility, Worth};
use hsched_plan::{Entry, Flag, FlagKind, Knowledge, Make, Parameters, Sharing, named};

pub(crate) const HADAR: LabPolicy = LabPolicy::of_gangs(Entry {
    name: "hadar",
    make: Make::Policy { make: |values| Ok(Box::new(Hadar::new(parameters(values)?))), watched: true },
    objectives: &[],
    flags: &[&SHARING, &UTILITY, &WORTH],
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    knows_replicas: false,
});

const SHARING: Flag = Flag {
    name: "sharing",
    value_name: "HOW",
    kind: FlagKind::Choice(&["equal", "balanced"]),
    usual: Some("equal"),
    help: "hadar: whether the GPUs of a job get equal shares of the batch (equal, as in the paper) or shares that fit \
           their speeds (balanced)",
};

const UTILITY: Flag = Flag {
    name: "utility",
    value_name: "WHAT",
    kind: FlagKind::Choice(&["throughput", "normalised"]),
    usual: Some("throughput"),
    help: "hadar: value of completing a job: its steps per second (throughput, as in the paper; favours long jobs), or \
           its shortest possible run time divided by its completion time (normalised)",
};

const WORTH: Flag = Flag {
    name: "worth",
    value_name: "WHAT",
    kind: FlagKind::Choice(&["finish", "delay"]),
    usual: Some("finish"),
    help: "hadar: budget of a job: the value of completing it (finish, as in the paper), or the part of that value that \
           one round of waiting costs (delay). `--utility normalised --worth delay` gives the best mean completion times",
};

fn parameters(parameters: &Parameters) -> Result<HadarParameters, String> {
    Ok(HadarParameters {
        sharing: parameters.value(&SHARING, |text| named(&Sharing::NAMES, text))?,
        utility: parameters.value(&UTILITY, |text| named(&Utility::NAMES, text))?,
        worth: parameters.value(&WORTH, |text| named(&Worth::NAMES, text))?,
        round: parameters.round.unwrap_or(HadarParameters::default().round),
    })
}
