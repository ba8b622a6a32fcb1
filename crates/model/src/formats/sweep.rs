//! Sweeps: one job for every combination of values, with the values in its name, environment and
//! placeholders.
//!
//! A variant is the job's tree with the values filled in, so every key has one reader, and problems have the
//! lines of the file.

mod read;

use std::collections::BTreeSet;

use serde_json::Value as Json;

use self::read::{base_name, check_key, read_sweep, report_chosen, report_idle};
use super::job_keys::{JobKey, PlaceholderForm};
use super::placeholder::{self, Syntax};
use super::problem::{ValueError, nearest};
use super::reader::{Fields, ReaderValue};
use super::search::{SearchKeys, Values};
use super::yaml::{ValueKind, YamlNode};
use crate::{ErrorId, Job, Variant};

/// Maximum number of jobs from the sweeps of one file.
const JOB_LIMIT: usize = 10_000;

/// Number of invalid variants after which the rest is not read, because they would repeat the same problems.
const ENOUGH: usize = 20;

/// Variables that are needed to find and start programs.
const VITAL: [&str; 7] = ["PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "SHELL", "TMPDIR", "USER"];

/// One key of a sweep.
#[derive(Clone)]
struct SweepKey {
    key: String,
    variable: String,
    values: Values,
}

/// The keys of a sweep in order, and whether all of them are valid.
#[derive(Clone)]
struct SweepKeys {
    axes: Vec<SweepKey>,
    /// The random search; `None` uses all combinations.
    search: Option<SearchKeys>,
    /// The id of the trial if this is a trial's sweep, which has only one combination.
    trial: Option<String>,
    is_sound: bool,
}

/// The sweep of a file, which applies to all jobs, and the number of jobs that sweeps have created so far.
pub(super) struct Sweeps {
    shared: SweepKeys,
    made: usize,
}

impl Sweeps {
    /// Reads the sweep at the top level of a file, if there is one.
    pub(super) fn of_file(fields: &Fields<'_>) -> Self {
        let none = SweepKeys { axes: Vec::new(), search: None, trial: None, is_sound: true };
        let shared = fields.get("sweep").map_or(none, read_sweep).searched(fields.get("search"));
        Self { shared, made: 0 }
    }

    /// Returns the sweep of a trial: one combination, from the tree's lists. Reports a problem if the file has
    /// the key `sweep` or `search`.
    pub(super) fn of_trial(id: &str, tree: &YamlNode, fields: &Fields<'_>) -> Self {
        for value in ["sweep", "search"].into_iter().filter_map(|key| fields.get(key)) {
            report_chosen(value);
        }
        let shared = SweepKeys { trial: Some(id.to_owned()), ..read_sweep(&fields.map().with(tree)) };
        Self { shared, made: 0 }
    }

    /// Reports a search of the file if no job has a sweep.
    pub(super) fn finish(&self, fields: &Fields<'_>) {
        if let Some(search) = fields.get("search").filter(|_| self.made == 0) {
            report_idle(search);
        }
    }

    /// Reads the variants of a job with `read`, or the job itself if there is no sweep.
    pub(super) fn variants(
        &mut self,
        job: &ReaderValue<'_>,
        mut read: impl FnMut(&ReaderValue<'_>) -> Option<Job>,
    ) -> Vec<Option<Job>> {
        let value = inner(job, "sweep");
        let search = inner(job, "search");
        if self.shared.trial.is_some() {
            value.iter().chain(&search).for_each(report_chosen);
        }
        let sweep = self.shared.clone().with(value.as_ref().map(read_sweep)).searched(search.as_ref());
        if sweep.axes.is_empty() {
            if let Some(search) = search {
                report_idle(&search);
            }
            return vec![read(job)];
        }
        check_placeholders(job, &sweep.axes);
        let sweep = sweep.checked(value.as_ref().unwrap_or(job));
        let count = sweep.count();
        let was_enough = self.made > JOB_LIMIT;
        self.made = self.made.saturating_add(count);
        if self.made > JOB_LIMIT {
            if !was_enough {
                let message = format!("the sweeps of this file make more than {JOB_LIMIT} jobs");
                let error = ValueError::new(message)
                    .id(ErrorId::SweepSize)
                    .hint("remove values, or use several files");
                value.as_ref().unwrap_or(job).report(error);
            }
            return vec![read(&job.with(&sweep.filled(job.node(), 0, None)))];
        }
        let Some(base) = base_name(job, &sweep).filter(|_| sweep.is_sound) else {
            return vec![read(&job.with(&sweep.filled(job.node(), 0, None)))];
        };
        let mut jobs = Vec::with_capacity(count);
        let mut wrong = 0;
        for number in 0..count {
            let variant = read(&job.with(&sweep.filled(job.node(), number, Some(base))));
            wrong += usize::from(variant.is_none());
            jobs.push(
                variant.map(|variant| sweep.finished(variant, number, inner(job, "model").is_none(), base)),
            );
            if wrong >= ENOUGH {
                break;
            }
        }
        check_checkpoints(job, &sweep.axes, &jobs);
        jobs
    }
}

impl SweepKeys {
    /// Adds the `search` of a job or a file.
    fn searched(mut self, search: Option<&ReaderValue<'_>>) -> Self {
        if let Some(search) = search {
            self.search = SearchKeys::read(search);
            self.is_sound &= self.search.is_some();
        }
        self
    }

    /// Reports ranges without a search that draws from them.
    fn checked(mut self, value: &ReaderValue<'_>) -> Self {
        let range = self.axes.iter().find(|axis| !matches!(axis.values, Values::List(_)));
        if let Some(axis) = range.filter(|_| self.search.is_none() && self.is_sound) {
            let message = format!("has a range for {}, but no number of samples", axis.key);
            value.report(
                ValueError::new(message)
                    .id(ErrorId::SearchRange)
                    .hint("add search: {samples: 20} beside sweep"),
            );
            self.is_sound = false;
        }
        self
    }

    /// Returns how many jobs the sweep makes from one.
    fn count(&self) -> usize {
        let all = self.axes.iter().map(|axis| match &axis.values {
            Values::List(values) => values.len(),
            Values::Uniform { .. } | Values::LogUniform { .. } => 1,
        });
        self.search.map_or_else(|| all.fold(1, usize::saturating_mul), |search| search.samples)
    }

    /// Adds a job's own keys, which override keys with the same variable.
    fn with(mut self, sweep: Option<Self>) -> Self {
        let Some(sweep) = sweep else { return self };
        self.is_sound &= sweep.is_sound;
        for axis in sweep.axes {
            match self.axes.iter_mut().find(|known| known.variable == axis.variable) {
                Some(known) => *known = axis,
                None => self.axes.push(axis),
            }
        }
        self
    }

    /// Returns each key's value in a combination; the last key varies fastest.
    fn chosen(&self, number: usize) -> Vec<(&SweepKey, YamlNode)> {
        if let Some(search) = self.search {
            let drawn = search.draw(number, self.axes.iter().map(|axis| &axis.values));
            return self.axes.iter().zip(drawn).collect();
        }
        let mut rest = number;
        let mut chosen = Vec::with_capacity(self.axes.len());
        for axis in self.axes.iter().rev() {
            let Values::List(values) = &axis.values else { continue };
            chosen.push((axis, values[rest % values.len()].clone()));
            rest /= values.len();
        }
        chosen.reverse();
        chosen
    }

    /// Returns the name of a combination: from its trial, from its number if it was drawn, else from its
    /// values.
    fn name(&self, base: &str, number: usize, chosen: &[(&SweepKey, YamlNode)]) -> String {
        match (&self.trial, self.search) {
            (Some(trial), _) => format!("{base}-t{trial}"),
            (None, Some(_)) => format!("{base}-s{}", number + 1),
            (None, None) => name(base, chosen),
        }
    }

    /// Returns the tree of a job with the values of a combination, named after them if it has a `base` name.
    fn filled(&self, job: &YamlNode, number: usize, base: Option<&str>) -> YamlNode {
        let chosen = self.chosen(number);
        let ValueKind::Map(entries) = &job.kind else { return job.clone() };
        let entries = entries.iter().map(|(key, node)| {
            let is_list = matches!(node.kind, ValueKind::List(_));
            let filling = JobKey::named(&key.text).map_or(PlaceholderForm::Plain, |key| key.filling);
            let filled = match (filling, base) {
                // The value of this key is not cloned for every variant, because it may be long.
                (PlaceholderForm::Nothing, _) => YamlNode { kind: ValueKind::Map(Vec::new()), ..*node },
                (PlaceholderForm::Name, None) => node.clone(),
                (PlaceholderForm::Name, Some(base)) => {
                    let text = self.name(base, number, &chosen);
                    YamlNode { kind: ValueKind::Scalar { text, quoted: true }, ..*node }
                }
                (PlaceholderForm::ShellUnlessList, _) if is_list => filled(node, Syntax::Plain, &chosen),
                (PlaceholderForm::Shell | PlaceholderForm::ShellUnlessList, _) => {
                    filled(node, Syntax::Shell, &chosen)
                }
                (PlaceholderForm::Plain, _) => filled(node, Syntax::Plain, &chosen),
            };
            (key.clone(), filled)
        });
        YamlNode { kind: ValueKind::Map(entries.collect()), ..*job }
    }

    /// Adds a variant's other properties: variables, which the job's own override, and a common model.
    fn finished(&self, mut job: Job, number: usize, shares_model: bool, base: &str) -> Job {
        if shares_model {
            base.clone_into(&mut job.model);
        }
        let is_set = |variable: &str| job.launch.env.iter().any(|(name, _)| name == variable);
        let chosen = self.chosen(number);
        let missing = chosen.iter().filter(|(axis, _)| !is_set(&axis.variable));
        let added: Vec<_> =
            missing.map(|(axis, value)| (axis.variable.clone(), text(value).to_owned())).collect();
        job.launch.env.splice(0..0, added);
        job.variant = Some(Variant {
            sweep: base.to_owned(),
            parameters: chosen.iter().map(|(axis, value)| (axis.key.clone(), scalar_json(value))).collect(),
        });
        job
    }
}

/// Returns whether a name is valid as a key of a sweep.
pub fn is_key(key: &str) -> bool {
    check_key(key, &key.to_uppercase(), None).is_ok()
}

/// Returns a variant's name: `digits-lr0.1-seed1`.
fn name(base: &str, chosen: &[(&SweepKey, YamlNode)]) -> String {
    let parts = chosen.iter().map(|(axis, value)| format!("-{}{}", axis.key, name_part(text(value))));
    base.chars().map(String::from).chain(parts).collect()
}

/// Returns a value in the form used in names, which allow only some characters.
pub(super) fn name_part(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// Returns a value with its placeholders filled; a value that is exactly one placeholder becomes the swept
/// value, text or number, or its shell word.
fn filled(node: &YamlNode, syntax: Syntax, chosen: &[(&SweepKey, YamlNode)]) -> YamlNode {
    let value_of = |name: &str| chosen.iter().find(|(axis, _)| axis.key == name).map(|(_, value)| value);
    if let Some(value) = placeholder::alone(node).and_then(value_of) {
        return match syntax {
            Syntax::Plain => YamlNode { kind: value.kind.clone(), ..*node },
            Syntax::Shell => YamlNode {
                kind: ValueKind::Scalar { text: shell_words::quote(text(value)).into_owned(), quoted: true },
                ..*node
            },
        };
    }
    let kind = match &node.kind {
        ValueKind::Scalar { text: scalar, quoted } => {
            let text = placeholder::fill(scalar, syntax, |name| value_of(name).map(text));
            ValueKind::Scalar { text, quoted: *quoted }
        }
        ValueKind::List(items) => {
            ValueKind::List(items.iter().map(|item| filled(item, syntax, chosen)).collect())
        }
        ValueKind::Map(entries) => ValueKind::Map(
            entries.iter().map(|(key, inner)| (key.clone(), filled(inner, syntax, chosen))).collect(),
        ),
    };
    YamlNode { kind, ..*node }
}

/// Reports names in braces that are similar to a key of the sweep but are not keys themselves.
fn check_placeholders(value: &ReaderValue<'_>, axes: &[SweepKey]) {
    let node = value.node();
    let unknown = |name: &str| {
        let is_known = axes.iter().any(|axis| axis.key == name);
        let near = nearest(name, axes.iter().map(|axis| axis.key.as_str())).filter(|_| !is_known);
        if let Some(near) = near {
            let error = ValueError::new(format!("{{{name}}} is not a key of the sweep"))
                .id(ErrorId::SweepPlaceholder);
            value.report(error.hint(format!("did you mean {{{near}}}?")));
        }
    };
    match (&node.kind, placeholder::alone(node)) {
        (_, Some(name)) => unknown(name),
        (ValueKind::Scalar { text, .. }, _) => placeholder::names(text).for_each(|(_, name)| unknown(name)),
        (ValueKind::List(_), _) => value.items().iter().for_each(|item| check_placeholders(item, axes)),
        (ValueKind::Map(_), _) => {
            let entries = value.entries_quietly();
            entries
                .iter()
                .filter(|(key, _)| *key != "sweep")
                .for_each(|(_, value)| check_placeholders(value, axes));
        }
    }
}

/// Reports a checkpoint directory shared by variants, which would overwrite each other's progress.
fn check_checkpoints(job: &ReaderValue<'_>, axes: &[SweepKey], jobs: &[Option<Job>]) {
    let mut seen = BTreeSet::new();
    let shared = jobs.iter().flatten().any(|variant| {
        let dir = variant.launch.checkpoint.dir.as_ref();
        dir.is_some_and(|dir| !seen.insert((variant.launch.workdir.as_ref(), dir)))
    });
    if shared && let Some(dir) = inner(job, "checkpoint").and_then(|checkpoint| inner(&checkpoint, "dir")) {
        let keys: Vec<String> = axes.iter().map(|axis| format!("{{{}}}", axis.key)).collect();
        let hint = format!("add {}, or remove dir: the default is a directory for each", keys.join("-"));
        dir.report(
            ValueError::new("is the same directory for several jobs of the sweep")
                .id(ErrorId::SweepValues)
                .hint(hint),
        );
    }
}

/// Returns an entry of a map without reporting a missing one.
fn inner<'a>(map: &ReaderValue<'a>, key: &str) -> Option<ReaderValue<'a>> {
    map.entries_quietly().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// Returns a scalar as the type it looks like: a number, a boolean, else text. A quoted scalar is text.
pub(super) fn scalar_json(value: &YamlNode) -> Json {
    let text = text(value);
    if matches!(value.kind, ValueKind::Scalar { quoted: true, .. }) {
        return Json::from(text);
    }
    let whole = || text.parse::<i64>().ok().map(Json::from);
    // Infinity and NaN stay text, because JSON has neither.
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Json::from);
    let truth = || text.parse::<bool>().ok().map(Json::from);
    whole().or_else(number).or_else(truth).unwrap_or_else(|| Json::from(text))
}

/// Returns the text of a scalar.
fn text(value: &YamlNode) -> &str {
    match &value.kind {
        ValueKind::Scalar { text, .. } => text,
        ValueKind::List(_) | ValueKind::Map(_) => "",
    }
}
