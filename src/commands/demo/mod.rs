//! `hsched demo`: plays the whole story on an imaginary cluster.

mod chapters;
mod demo_setup;
mod performance;
mod script;

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::demo::chapters::{Chapter, chapters};
use crate::commands::demo::demo_setup::{BEGIN, DemoSetup};
use crate::commands::demo::performance::{Performance, completion, completions, perform, without_moves};
use hsched_engine::clock::Clock;
use hsched_model::{JobName, Seconds};
use hsched_plan::{Parameters, Sharing};
use hsched_ui::{Exit, Failure, ProgressLine};

/// Show what hsched does on a simulated cluster: plan, submit, watch, measure and re-plan
///
/// Needs no Slurm, GPU or files, and changes nothing. The cluster and its queue are simulated, so hours of training
/// take a moment. All decisions, tables and scripts come from the same code as on a real cluster.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Do not pause between lines.
    #[arg(long)]
    fast: bool,
    /// Seed of the small random differences between the compute times of ranks.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// The pause before a line, and the pause before a command and after a chapter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(300));

/// The completion times of all jobs in one scenario.
struct Scenario {
    name: &'static str,
    word: &'static str,
    /// Mean and last completion time.
    completions: Option<(Seconds, Seconds)>,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn bears_wrong_settings(&self) -> bool {
        true
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let setup = DemoSetup::new(&context.settings, self.seed)?;
        let policies = hsched_lab::registry();
        let placer = || {
            let placer = policies.placer(policies.names()[0], &Parameters::default());
            placer.map_err(|error| Failure::from_error(Exit::Internal, &error))
        };
        let progress = ProgressLine::start("simulating a cluster".to_owned());
        let played = perform(&setup, placer()?);
        let other =
            |sharing| -> Result<_, Failure> { Ok(completions(&without_moves(&setup, placer()?, sharing))) };
        let way = |name, word, completions| Scenario { name, word, completions };
        let ways = [
            way("as above", "moves_auto", completions(&played.state)),
            way("without moves", "moves_never", other(Sharing::Balanced)?),
            way("without moves, equal local batches", "moves_never_equal_batches", other(Sharing::Equal)?),
        ];
        drop(progress);
        match self.format {
            Format::Json => print(context, &json_text(&to_json(self.seed, &played, &ways))?)?,
            Format::Table => {
                let chapters = chapters(context.terminal, &setup, &*placer()?, &played, &ways)?;
                show(self, context, &chapters)?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Prints the chapters, with pauses on a terminal.
fn show(args: &Args, context: &Context, chapters: &[Chapter]) -> Result<(), Failure> {
    let pause = |time| {
        if context.terminal.is_watched() && !args.fast {
            context.clock.sleep(time);
        }
    };
    for (number, chapter) in chapters.iter().enumerate() {
        let gap = if number > 0 { "\n" } else { "" };
        print(context, &format!("{gap}{}\n", chapter.explained))?;
        if let Some(command) = &chapter.command {
            pause(PAUSES.1);
            print(context, &format!("$ {command}\n"))?;
        }
        for line in &chapter.output {
            pause(PAUSES.0);
            print(context, &format!("{line}\n"))?;
        }
        pause(PAUSES.1);
    }
    Ok(())
}

fn to_json(seed: u64, played: &Performance, ways: &[Scenario]) -> Value {
    let story = played.lines.iter().map(|(at, line)| {
        let job = line.job.as_ref().map(JobName::as_str);
        json!({ "at_s": at.0, "job": job, "topic": line.topic.word(), "text": line.text })
    });
    let jobs = played.state.jobs.iter().map(|tracked| {
        let attempts = tracked.past.iter().map(|past| {
            let gpus = past.attempt.gpus.by_type();
            let gpus: Value =
                gpus.iter().map(|(gpu_type, count)| (gpu_type.to_string(), json!(count))).collect();
            json!({
                "gpus": gpus,
                "start_s": past.attempt.started.map(|at| at.since(BEGIN).0),
                "end_s": past.ended.since(BEGIN).0,
                "epochs": past.epochs,
                "predicted_epoch_s": past.attempt.epoch.0,
                "end": past.end.to_string(),
            })
        });
        json!({
            "name": tracked.job.name.as_str(),
            "epochs": tracked.epochs_done,
            "completion_s": completion(tracked).map(|time| time.0),
            "attempts": attempts.collect::<Vec<_>>(),
        })
    });
    let ways = ways.iter().map(|way| {
        let (mean, last) = way.completions.unzip();
        let times =
            json!({ "mean_completion_s": mean.map(|seconds| seconds.0), "last_completion_s": last.map(|seconds| seconds.0) });
        (way.word.to_owned(), times)
    });
    json!({
        "schema": "hsched.demo/1",
        "seed": seed,
        "story": story.collect::<Vec<_>>(),
        "jobs": jobs.collect::<Vec<_>>(),
        "ways": ways.collect::<Value>(),
    })
}
