//! An excerpt of the actual job script of the first plan: the requested GPUs, and the table of ranks.

use std::collections::BTreeMap;

use crate::commands::demo::demo_setup::DemoSetup;
use hsched_engine::live::Tag;
use hsched_engine::render::{self, RunFacts, Template, render};
use hsched_engine::{Run, named_ranks};
use hsched_model::{GpuType, PlacedRank};
use hsched_ui::{Exit, Failure};

/// A job, and the lines of its script that place its ranks.
pub(super) struct Excerpt {
    pub job: String,
    pub lines: Vec<String>,
}

/// Returns the excerpt for the job with the most GPU types.
///
/// # Errors
/// Never, unless the template is invalid.
pub(super) fn excerpt(setup: &DemoSetup, first: &Run) -> Result<Option<Excerpt>, Failure> {
    let kinds = |ranks: &[PlacedRank]| {
        let mut types: Vec<&GpuType> = ranks.iter().map(|rank| &rank.gpu_type).collect();
        types.dedup();
        types.len()
    };
    let ranks = first
        .submissions
        .iter()
        .map(|submission| (submission, named_ranks(&first.problem, &submission.placement)));
    let Some((intent, ranks)) = ranks.max_by_key(|(_, ranks)| kinds(ranks)) else { return Ok(None) };
    let job = &first.jobs[intent.job];
    let defaults = setup.rules().defaults;
    let facts = RunFacts {
        claim: None,
        follows: None,
        others: &[],
        name: job.name.to_string(),
        run: &first.id,
        plan: "demo",
        comment: Tag { run: first.id.clone(), job: job.name.to_string(), copy: 0 }.to_comment(),
        ranks: &ranks,
        pinned: false,
        inside: None,
        walltime: first.walltime(intent, &defaults),
        epochs_done: 0,
        workdir: "/home/you".to_owned(),
        checkpoint_dir: "/home/you/checkpoints".to_owned(),
        fence: "/home/you/fence".to_owned(),
        report_dir: "/home/you/reports".to_owned(),
        helper_dir: "/home/you/helper".to_owned(),
        device_order: Vec::new(),
        untyped: BTreeMap::new(),
    };
    let internal = |error: &dyn std::error::Error| Failure::from_error(Exit::Internal, error);
    let run = render::Batch::new(job, &defaults, facts).map_err(|error| internal(&error))?;
    let script = render(&Template::default(), &run).map_err(|error| internal(&error))?;
    let table: Vec<&str> =
        script.lines().skip_while(|line| *line != "hs_ranks=(").take_while(|line| *line != ")").collect();
    let asked = script.lines().filter(|line| line.starts_with("#SBATCH --gres"));
    let lines = asked.chain(shortened(&table)).chain([")"]).map(str::to_owned).collect();
    Ok(Some(Excerpt { job: job.name.to_string(), lines }))
}

/// Returns the beginning and the end of a long table.
fn shortened<'a>(table: &[&'a str]) -> Vec<&'a str> {
    match table {
        [head, first, second, .., last] if table.len() > 5 => vec![*head, *first, *second, "  ...", *last],
        _ => table.to_vec(),
    }
}
