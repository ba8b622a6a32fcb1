//! The effective settings with their origins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::entry::{EntryValue, Layer, Origin, SettingEntry};
use super::environment::no_color;
use super::forbidden::Feature;
use super::given::TypedValue;
use super::keys::{KEYS, Key, SetBy};
use super::problem::{SettingsProblem, SettingsProblems};
use super::sources::Sources;
use hsched_model::formats::ValueError;
use hsched_model::{BitRate, ErrorId, GpuType, JobDefaults, NodeName, Seconds};

/// All settings, including defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Defaults for keys that a job file leaves out.
    pub jobs: JobDefaults,
    /// Default rate between nodes.
    pub network: BitRate,
    /// Default rate between the GPUs of a node.
    pub intra_node: BitRate,
    /// Rate between the GPUs of individual nodes.
    pub node_rates: BTreeMap<NodeName, BitRate>,
    /// Maximum number of available GPUs by type; empty means no limit.
    pub capacity: BTreeMap<GpuType, u32>,
    /// Types of the GPUs that have none in Slurm, by node names, feature or partition.
    pub untyped_gpus: BTreeMap<String, GpuType>,
    /// Default cost of stopping and restarting a job.
    pub restart_cost: Seconds,
    /// Delay before the first retry of a failed job; each further failure doubles it.
    pub retry_delay: Seconds,
    /// Directory of templates that replace the built-in ones.
    pub templates: Option<PathBuf>,
    /// Directory for state; `None` only if it is not set and the home directory is unknown.
    pub state_dir: Option<PathBuf>,
    /// Shell command that is notified when jobs complete, fail or cannot start; `None` for no notification.
    pub notify: Option<String>,
    /// Features that the site forbids.
    pub forbidden: Vec<Feature>,
    /// Time limit of a Slurm command, above 0.
    pub slurm_timeout: Seconds,
    /// Weight of the newest measurement of a speed, in (0, 1].
    pub learning_rate: f64,
    pub color: ColorMode,
    /// `node_rates` as typed, in the order of application.
    pub(super) node_expressions: Vec<(String, BitRate)>,
    /// Origins by key and key inside a table.
    origins: BTreeMap<(&'static str, String), Origin>,
    notes: Vec<String>,
}

/// Whether output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorMode {
    /// On terminals only.
    Auto,
    Always,
    Never,
}

/// One line of `hsched config show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// Key in the syntax of `--set`, such as `capacity.v100`.
    pub key: String,
    /// Value as text; empty if unset.
    pub value: String,
    pub origin: Origin,
    /// One-line description of the key.
    pub help: &'static str,
}

impl Settings {
    /// Reads all layers and determines every key.
    ///
    /// # Errors
    /// If a file cannot be read or any layer contains an error. All problems are listed, including those of
    /// values that a higher layer overrides.
    pub fn load(sources: &Sources) -> Result<Self, SettingsProblems> {
        match Self::load_valid(sources)? {
            (settings, None) => Ok(settings),
            (_, Some(problems)) => Err(problems),
        }
    }

    /// Reads all layers as [`Settings::load`] does, but skips invalid values and also returns their problems.
    ///
    /// # Errors
    /// If not even the built-in defaults are usable.
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

    /// Returns the origin of the value of a key, or of an entry of a table.
    pub fn origin(&self, key: &'static str, item: &str) -> Origin {
        self.origins.get(&(key, item.to_owned())).cloned().unwrap_or(Origin::Default)
    }

    /// Returns a sentence for people about each skipped file, with the reason.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the defaults, parsed like all other values. The table of keys defines them, except for the
    /// state directory and the effect of the variable `NO_COLOR`.
    fn built_in(sources: &Sources, problems: &mut Vec<SettingsProblem>) -> Option<Self> {
        let mut settings = Self::blank()?;
        settings.state_dir = sources.state_home.as_ref().map(|home| home.join("hsched"));
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            let typed = EntryValue::Word(key.default.to_owned());
            let entry = SettingEntry { key, item: String::new(), typed, origin: Origin::Default };
            settings.apply(entry, sources, problems);
        }
        if let Some(entry) = no_color(&sources.environment) {
            settings.apply(entry, sources, problems);
        }
        Some(settings)
    }

    /// Returns settings without values.
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

    /// Applies one value on top of the lower layers, or records its problem.
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

    /// Returns the name of the mode in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Returns the key in the syntax of `--set`.
pub(super) fn full_name(key: &Key, item: &str) -> String {
    if item.is_empty() { key.name.to_owned() } else { format!("{}.{item}", key.name) }
}
