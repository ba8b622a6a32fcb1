//! The settings as decided, and where each came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::entry::{Layer, Origin, SettingEntry, Typed};
use super::environment::no_color;
use super::forbidden::Feature;
use super::given::TypedValue;
use super::keys::{KEYS, Key, SetBy};
use super::problem::{SettingsProblem, SettingsProblems};
use super::sources::Sources;
use hsched_model::formats::ValueError;
use hsched_model::{BitRate, ErrorId, GpuType, JobDefaults, NodeName, Seconds};

/// All settings, every default filled in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What holds for jobs that do not say otherwise.
    pub jobs: JobDefaults,
    /// Rate between nodes for clusters that do not say.
    pub network: BitRate,
    /// Rate between the GPUs of a node for clusters that do not say.
    pub intra_node: BitRate,
    /// Rate between the GPUs of single nodes.
    pub node_rates: BTreeMap<NodeName, BitRate>,
    /// GPUs that may be expected, by type; empty is no limit.
    pub capacity: BTreeMap<GpuType, u32>,
    /// Types of GPUs that Slurm knows without one, by node names, feature or partition.
    pub untyped_gpus: BTreeMap<String, GpuType>,
    /// What stopping and starting again costs, for jobs that do not say.
    pub restart_cost: Seconds,
    /// The wait before a failed job is tried again.
    pub retry_delay: Seconds,
    /// Directory of templates that replace the built-in ones.
    pub templates: Option<PathBuf>,
    /// Directory for state; `None` only where no home directory is known either.
    pub state_dir: Option<PathBuf>,
    /// Shell line that is told of ends; `None` for no notification.
    pub notify: Option<String>,
    /// What the site does not want.
    pub forbidden: Vec<Feature>,
    /// Longest wait for one Slurm command, above 0.
    pub slurm_timeout: Seconds,
    /// Weight of the newest measurement of a speed, in (0, 1].
    pub learning_rate: f64,
    pub color: ColorMode,
    /// `node_rates` as typed, in the order in which they were applied.
    pub(super) node_expressions: Vec<(String, BitRate)>,
    /// Origins by key and key inside a table.
    origins: BTreeMap<(&'static str, String), Origin>,
    notes: Vec<String>,
}

/// Whether output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorMode {
    /// On terminals.
    Auto,
    Always,
    Never,
}

/// One line of `hsched config show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// Key as `--set` takes it, such as `capacity.v100`.
    pub key: String,
    /// Value as text; empty when unset.
    pub value: String,
    pub origin: Origin,
    /// One line about the key.
    pub help: &'static str,
}

impl Settings {
    /// Reads all layers and decides every key.
    ///
    /// # Errors
    /// When a file cannot be read or anything in any layer is wrong; all problems are listed, also
    /// those of values that a higher layer replaces.
    pub fn load(sources: &Sources) -> Result<Self, SettingsProblems> {
        match Self::load_valid(sources)? {
            (settings, None) => Ok(settings),
            (_, Some(problems)) => Err(problems),
        }
    }

    /// Reads all layers as [`Settings::load`] does, but passes over what is wrong, and returns that too.
    ///
    /// # Errors
    /// When not even the built-in defaults can be used.
    pub fn load_valid(sources: &Sources) -> Result<(Self, Option<SettingsProblems>), SettingsProblems> {
        let (entries, mut problems) = sources.entries();
        let Some(mut settings) = Self::built_in(sources, &mut problems) else {
            let error = ValueError::new("the built-in defaults are unusable").id(ErrorId::Internal);
            problems.push(SettingsProblem { origin: Origin::Default, key: String::new(), error });
            return Err(SettingsProblems::from(problems));
        };
        settings.notes = sources.notes();
        for entry in entries {
            settings.apply(entry, sources, &mut problems);
        }
        Ok((settings, (!problems.is_empty()).then(|| problems.into())))
    }

    /// Returns every value with its origin, in the order of [`KEYS`].
    pub fn rows(&self) -> Vec<SettingRow> {
        let of_key = |key: &'static Key| {
            let mut shown = (key.show)(self);
            if shown.is_empty() {
                shown.push((String::new(), String::new()));
            }
            shown.into_iter().map(|(item, value)| SettingRow {
                key: full_name(key, &item),
                value,
                origin: self.origin(key.name, &item),
                help: key.help,
            })
        };
        KEYS.iter().flat_map(of_key).collect()
    }

    /// Returns where the value of a key, or of an entry of a table, was typed.
    pub fn origin(&self, key: &'static str, item: &str) -> Origin {
        self.origins.get(&(key, item.to_owned())).cloned().unwrap_or(Origin::Default)
    }

    /// Returns what was left out and why, one sentence each, for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the defaults, which go the way of all values: the table is the one place that states them.
    fn built_in(sources: &Sources, problems: &mut Vec<SettingsProblem>) -> Option<Self> {
        let mut settings = Self::blank()?;
        settings.state_dir = sources.state_home.as_ref().map(|home| home.join("hsched"));
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            let typed = Typed::Word(key.default.to_owned());
            let entry = SettingEntry { key, item: String::new(), typed, origin: Origin::Default };
            settings.apply(entry, sources, problems);
        }
        if let Some(entry) = no_color(&sources.environment) {
            settings.apply(entry, sources, problems);
        }
        Some(settings)
    }

    /// Returns settings of which nothing is decided.
    fn blank() -> Option<Self> {
        let some_rate = BitRate::new(1.0)?;
        Some(Self {
            jobs: JobDefaults::default(),
            network: some_rate,
            intra_node: some_rate,
            node_rates: BTreeMap::new(),
            capacity: BTreeMap::new(),
            untyped_gpus: BTreeMap::new(),
            restart_cost: Seconds(0.0),
            retry_delay: Seconds(0.0),
            templates: None,
            state_dir: None,
            notify: None,
            forbidden: Vec::new(),
            slurm_timeout: Seconds(0.0),
            learning_rate: 1.0,
            color: ColorMode::Auto,
            node_expressions: Vec::new(),
            origins: BTreeMap::new(),
            notes: Vec::new(),
        })
    }

    /// Puts one value over what lower layers gave, or notes what is wrong with it.
    fn apply(&mut self, entry: SettingEntry, sources: &Sources, problems: &mut Vec<SettingsProblem>) {
        let SettingEntry { key, item, typed, origin } = entry;
        let base = match &origin {
            Origin::File { path, .. } => path.parent(),
            _ => sources.directory.as_deref(),
        };
        let base = base.unwrap_or(Path::new(""));
        if key.set_by == SetBy::Site && origin.layer() > Layer::Site {
            let error = ValueError::new("can only be set in the site's file").id(ErrorId::SettingPlace);
            problems.push(SettingsProblem { origin, key: full_name(key, &item), error });
            return;
        }
        let given = TypedValue { item: &item, typed: &typed, base, home: sources.home.as_deref() };
        match (key.set)(self, &given) {
            Ok(()) => {
                self.origins.insert((key.name, item), origin);
            }
            Err(error) => problems.push(SettingsProblem { origin, key: full_name(key, &item), error }),
        }
    }
}

impl ColorMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    /// Returns the mode's name in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Returns the key as `--set` takes it.
pub(super) fn full_name(key: &Key, item: &str) -> String {
    if item.is_empty() { key.name.to_owned() } else { format!("{}.{item}", key.name) }
}
