//! `hsched top`: shows the jobs live in the terminal.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::app::context::Context;
use crate::app::current_state::CurrentState;
use crate::app::metrics::{curve_of, metric_of};
use crate::app::session;
use crate::app::slurm::expected_starts::ExpectedStarts;
use crate::commands::cli::{Subcommand, run_words};
use hsched_engine::clock::Clock;
use hsched_engine::live::Interrupts;
use hsched_engine::store::samples::RecentSamples;
use hsched_engine::store::{last_look, report_folder};
use hsched_engine::{JobState, NodeSamples, State};
use hsched_model::{JobName, Time};
use hsched_ui::{
    Exit, Failure, KeyPress, TopRow, TopScreen, TopView, duration, moment, top_details, top_gpus,
};

/// Show the jobs live in the terminal: GPUs, epochs, curves, expected starts
///
/// Reads the state directory every two seconds, and asks Slurm at most once a minute for the expected starts
/// of pending jobs. It changes nothing by itself. Keys: up and down select a job, l shows its output, e
/// explains its state and why it is pending, c cancels it after you confirm, q quits. `hsched status` prints
/// the same data once, also as JSON.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Time between two reads of the state.
const READ: Duration = Duration::from_secs(2);

/// Time between checks for keys and signals.
const TICK: Duration = Duration::from_millis(200);

/// The pause between two reads is at least this multiple of the time that a read takes.
const REST: u32 = 10;

/// Lines of a job's output that are shown.
const LINES: &str = "200";

/// Rows per page.
const PAGE: usize = 10;

impl Subcommand for Args {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut top = Top::new(context);
        // Errors in the state directory are printed before the terminal is taken over.
        top.read()?;
        let terminal = |error: io::Error| {
            Failure::new(Exit::Usage, format!("cannot draw on the terminal: {error}"))
                .hint("hsched status shows the jobs once, hsched watch logs what happens")
        };
        let interrupts = Interrupts::take()
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot take over signals: {error}")))?;
        let mut screen = TopScreen::enter(context.terminal.colour()).map_err(terminal)?;
        top.live(&mut screen, &interrupts).map_err(terminal)
    }
}

/// The displayed data, and the question that waits for an answer.
struct Top<'a> {
    context: &'a Context,
    samples: RecentSamples,
    starts: ExpectedStarts,
    metrics: BTreeMap<JobName, JobMetrics>,
    view: TopView,
    question: Option<Confirmation>,
    /// Time of the next read, since the start.
    next: Duration,
}

/// The reported values of a job.
struct JobMetrics {
    /// Completed epochs at the last read.
    epochs: u64,
    /// Name and last value of its metric.
    metric: Option<(String, f64)>,
    /// Values of the metric by epoch; epochs without one are left out.
    curve: Vec<f64>,
}

/// The action that `y` confirms.
struct Confirmation {
    name: String,
}

/// Whether the loop continues.
enum After {
    GoOn,
    Quit,
}

impl<'a> Top<'a> {
    fn new(context: &'a Context) -> Self {
        let (samples, starts) = (RecentSamples::default(), ExpectedStarts::default());
        let (metrics, view) = (BTreeMap::new(), TopView::default());
        Self { context, samples, starts, metrics, view, question: None, next: Duration::ZERO }
    }

    /// Draws the screen and handles keys until the user quits or a signal arrives.
    fn live(&mut self, screen: &mut TopScreen, interrupts: &Interrupts) -> io::Result<Exit> {
        screen.draw(&self.view)?;
        loop {
            if interrupts.came() {
                return Ok(Exit::Interrupted);
            }
            if let Some(key) = screen.key(TICK)? {
                match self.obey(key, screen)? {
                    After::GoOn => {}
                    After::Quit => return Ok(Exit::Done),
                }
                screen.draw(&self.view)?;
            }
            if self.context.clock.elapsed() >= self.next {
                self.read_again();
                screen.draw(&self.view)?;
            }
        }
    }

    /// Reads the state again; shows an error until a read succeeds.
    fn read_again(&mut self) {
        let begin = self.context.clock.elapsed();
        let problem = self.read().err().map(|failure| failure.message);
        let took = self.context.clock.elapsed().saturating_sub(begin);
        self.next = self.context.clock.elapsed() + READ.max(took * REST);
        self.view.problem = problem;
    }

    /// Reads the state and builds the displayed rows.
    fn read(&mut self) -> Result<(), Failure> {
        let selected = self.selected().map(|row| row.name.clone());
        let current = CurrentState::read(self.context, &mut self.samples)?;
        let CurrentState { state, root, now, cluster, .. } = &current;
        let is_slurm = cluster.as_deref() != Some(session::LOCAL_CLUSTER);
        if is_slurm
            && state
                .jobs
                .iter()
                .any(|tracked| tracked.phase.is_submitted() && tracked.phase.running().is_none())
        {
            self.starts.look(root, *now);
        }
        let mut jobs: Vec<&JobState> = state.jobs.iter().collect();
        jobs.sort_by_key(|tracked| (tracked.phase.is_over(), tracked.phase.running().is_none()));
        let mut rows: Vec<TopRow> = jobs.iter().map(|tracked| self.row(tracked, &current)).collect();
        rows.extend(state.scripts.iter().map(|script| {
            let start = script.submission.job_id.filter(|_| script.word() == "pending");
            TopRow::of_script(script, start.and_then(|job| self.start(job, *now)))
        }));
        let looked = last_look(root).filter(|_| is_slurm);
        let age = looked.map(|at| format!(", updated {} ago", duration(now.since(at))));
        let place = cluster.as_deref().filter(|_| is_slurm).unwrap_or("this machine");
        let problem = current.warnings.first().or(current.notes.first()).cloned();
        let samples_of =
            |tracked: &JobState, samples: &mut RecentSamples| samples_of(&current, tracked, samples);
        let gpus = {
            let samples = std::cell::RefCell::new(&mut self.samples);
            top_gpus(state, |tracked| samples_of(tracked, &mut samples.borrow_mut()), *now)
        };
        self.view.title = format!("hsched top: {place}, {}{}", moment(*now, *now), age.unwrap_or_default());
        self.view.summary = [Some(counts(state)), gpus, problem].into_iter().flatten().collect();
        self.view.rows = rows;
        let place = self.view.rows.iter().position(|row| Some(&row.name) == selected.as_ref());
        self.view.selected = place.unwrap_or(self.view.selected).min(self.view.rows.len().saturating_sub(1));
        self.detail(&current);
        Ok(())
    }

    /// Returns the row of a job. Its metric is read again after each epoch.
    fn row(&mut self, tracked: &JobState, current: &CurrentState) -> TopRow {
        let done = tracked.epochs_done;
        let known = self.metrics.get(&tracked.job.name).filter(|known| known.epochs == done);
        if known.is_none() {
            let metric = (done > 0).then(|| metric_of(&current.root, tracked)).flatten();
            let metric = metric.map(|metric| (metric.name.clone(), metric.last()));
            let curve = match &metric {
                Some((name, _)) => curve_of(&current.root, tracked, name),
                None => tracked.curve.iter().map(|report| report.value).collect(),
            };
            self.metrics.insert(tracked.job.name.clone(), JobMetrics { epochs: done, metric, curve });
        }
        let known = self.metrics.get(&tracked.job.name);
        let (metric, curve) =
            known.map_or((None, Vec::new()), |known| (known.metric.as_ref(), known.curve.clone()));
        let waits = tracked.phase.is_submitted() && tracked.phase.running().is_none();
        let job = tracked.phase.attempt().and_then(|attempt| attempt.job_id).filter(|_| waits);
        let start = job.and_then(|job| self.start(job, current.now));
        TopRow::of_job(tracked, metric, curve, start, current.now)
    }

    /// Returns when Slurm expects a job to start, for people.
    fn start(&self, job: hsched_model::JobId, now: Time) -> Option<String> {
        let at = self.starts.of(job)?;
        let left = at.since(now);
        Some(if left.0 < 1.0 { "start due".to_owned() } else { format!("start in {}", duration(left)) })
    }

    /// Builds the details of the selected job.
    fn detail(&mut self, current: &CurrentState) {
        (self.view.details, self.view.curve) = (Vec::new(), None);
        let Some(name) = self.selected().map(|row| row.name.clone()) else { return };
        let job = current.state.jobs.iter().find(|tracked| tracked.job.name.as_str() == name);
        let Some(tracked) = job else { return };
        let samples = samples_of(current, tracked, &mut self.samples);
        self.view.details = top_details(tracked, &samples, current.now);
        let known = self.metrics.get(&tracked.job.name);
        self.view.curve =
            known.and_then(|known| Some((known.metric.as_ref()?.0.clone(), known.curve.clone())));
    }

    fn selected(&self) -> Option<&TopRow> {
        self.view.rows.get(self.view.selected)
    }

    /// Carries out the action of a key.
    fn obey(&mut self, key: KeyPress, screen: &mut TopScreen) -> io::Result<After> {
        self.view.message = None;
        if let Some(question) = self.question.take() {
            if key == KeyPress::Letter('y') {
                self.aside(screen, &[&["cancel", "--", &question.name]])?;
            } else if key == KeyPress::Redraw {
                self.ask(question);
            }
            return Ok(After::GoOn);
        }
        let last = self.view.rows.len().saturating_sub(1);
        let selected = self.view.selected;
        match key {
            KeyPress::Letter('q') | KeyPress::Escape | KeyPress::Interrupt => return Ok(After::Quit),
            KeyPress::Up => self.select(selected.saturating_sub(1)),
            KeyPress::Down => self.select((selected + 1).min(last)),
            KeyPress::PageUp => self.select(selected.saturating_sub(PAGE)),
            KeyPress::PageDown => self.select((selected + PAGE).min(last)),
            KeyPress::First => self.select(0),
            KeyPress::Last => self.select(last),
            KeyPress::Letter(letter) => return self.obey_letter(letter, screen),
            KeyPress::Enter | KeyPress::Redraw => {}
        }
        Ok(After::GoOn)
    }

    fn obey_letter(&mut self, letter: char, screen: &mut TopScreen) -> io::Result<After> {
        let Some(row) = self.selected() else { return Ok(After::GoOn) };
        let (name, is_over, is_pending) = (row.name.clone(), row.is_over, row.state == "pending");
        match letter {
            'l' => self.aside(screen, &[&["logs", "--tail", LINES, "--", &name]])?,
            'e' if is_pending => self.aside(screen, &[&["status", "--", &name], &["why", "--", &name]])?,
            'e' => self.aside(screen, &[&["status", "--", &name]])?,
            'c' if is_over => self.view.message = Some(format!("{name} has already ended")),
            'c' => self.ask(Confirmation { name }),
            _ => {}
        }
        Ok(After::GoOn)
    }

    fn select(&mut self, place: usize) {
        self.view.selected = place;
        self.next = Duration::ZERO;
    }

    fn ask(&mut self, question: Confirmation) {
        self.view.message = Some(format!("cancel {}? y: yes, any other key: no", question.name));
        self.question = Some(question);
    }

    /// Gives the terminal to another command of hsched, which prints as usual.
    fn aside(&mut self, screen: &mut TopScreen, commands: &[&[&str]]) -> io::Result<()> {
        screen.aside(|| {
            for words in commands {
                if let Err(failure) = run_words(self.context, words) {
                    self.context.terminal.fail(&failure, false);
                }
            }
        })?;
        self.next = Duration::ZERO;
        Ok(())
    }
}

/// Returns the recent samples of a job's running submission.
fn samples_of(current: &CurrentState, tracked: &JobState, samples: &mut RecentSamples) -> Vec<NodeSamples> {
    let Some(attempt) = tracked.phase.running() else { return Vec::new() };
    let key = attempt.key(&tracked.job.name);
    samples.of(&report_folder(&current.root, &key.run, &key.name()))
}

/// Returns the number of jobs in each state, for people; a hint if there are no jobs.
fn counts(state: &State) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let words = state.jobs.iter().map(|tracked| tracked.phase.word());
    for word in words.chain(state.scripts.iter().map(hsched_engine::ScriptJob::word)) {
        *counts.entry(word).or_default() += 1;
    }
    if counts.is_empty() {
        return "no jobs yet: add some with hsched submit, hsched add or hsched run".to_owned();
    }
    counts.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}
