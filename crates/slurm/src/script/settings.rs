//! The options of one component of a job; the last of several with the same name counts.

use std::collections::BTreeMap;

use super::check::{check, is_of_controller};
use super::getopt::FoundOption;
use super::names::{OptionName, ValueRule};
use super::placeholders::{Placeholder, placeholder};
use super::request::{Exclusive, LineRemark};
use super::source::SlurmVersion;

/// Options whose text Slurm uses unchanged, and which the parsed request contains as text.
const TEXTS: [&str; 4] = ["account", "partition", "qos", "constraint"];

/// Options that do not affect a job's request.
const UNASKED: [&str; 13] = [
    "job-name",
    "output",
    "error",
    "input",
    "mail-user",
    "mail-type",
    "comment",
    "chdir",
    "export",
    "wckey",
    "extra",
    "export-file",
    "propagate",
];

/// The last of the options with the same name.
#[derive(Clone, Debug)]
pub(super) struct GivenOption {
    pub value: Option<String>,
    pub is_of_environment: bool,
    /// Line of the script, if it is from the script.
    pub line: Option<usize>,
    /// The option as written.
    pub text: String,
    pub placeholder: Option<Placeholder>,
    /// Why Slurm refuses a placeholder, or why the controller refuses the value.
    refusal: Option<String>,
    /// Sequence number, to determine the first refusal.
    order: usize,
}

/// The options of one component.
#[derive(Clone, Debug, Default)]
pub(super) struct ComponentSettings {
    values: BTreeMap<&'static str, GivenOption>,
    /// The last of `--exclusive` and `--oversubscribe`.
    shared: Exclusive,
    /// Sockets per node, cores per socket and threads per core, from the last option that sets them.
    pub sockets: Option<u64>,
    pub cores: Option<u64>,
    pub threads: Option<u64>,
    count: usize,
}

impl ComponentSettings {
    /// Drops values that later components of a het job do not inherit.
    pub(super) fn begin_component(&mut self, is_inherited: impl Fn(&str) -> bool) {
        self.values.retain(|name, _| is_inherited(name));
        self.shared = Exclusive::No;
        (self.sockets, self.cores, self.threads) = (None, None, None);
    }

    /// Applies an option of the script or the command line.
    ///
    /// # Errors
    /// The message of `sbatch` about its value, unless it is a placeholder.
    pub(super) fn apply(&mut self, found: &FoundOption, version: SlurmVersion) -> Result<(), String> {
        if found.is_plugin {
            return Ok(());
        }
        let refusal = check(found.name, found.value.as_deref(), version).err();
        let placeholder = found.value.as_deref().and_then(placeholder);
        let stray =
            found.stray.as_ref().map(|word| format!("Invalid directive found in batch script: {word}"));
        if let (Some(refusal), None) = (&refusal, placeholder)
            && !is_of_controller(found.name)
        {
            return Err(refusal.clone());
        }
        self.count += 1;
        let setting = GivenOption {
            value: found.value.clone(),
            is_of_environment: false,
            line: found.line,
            text: found.text.clone(),
            placeholder,
            refusal: refusal.or(stray),
            order: self.count,
        };
        self.insert(found.name, setting);
        Ok(())
    }

    /// Applies an environment variable.
    ///
    /// # Errors
    /// Slurm's message about its value.
    pub(super) fn apply_variable(
        &mut self,
        option: OptionName,
        variable: &str,
        value: &str,
        version: SlurmVersion,
    ) -> Result<(), String> {
        let name = option.name();
        if is_unset(option, value) {
            self.values.remove(name);
            return Ok(());
        }
        let value = variable_value(option, value);
        let refusal = check(name, value, version).map_err(|why| format!("{variable}: {why}")).err();
        if let Some(refusal) = refusal.clone().filter(|_| !is_of_controller(name)) {
            return Err(refusal);
        }
        self.count += 1;
        let text = format!("{variable}={}", value.unwrap_or_default());
        let setting = GivenOption {
            value: value.map(str::to_owned),
            is_of_environment: true,
            line: None,
            text,
            placeholder: None,
            refusal,
            order: self.count,
        };
        self.insert(name, setting);
        Ok(())
    }

    fn insert(&mut self, name: &'static str, setting: GivenOption) {
        let value = setting.value.as_deref();
        let number = value.and_then(|text| text.parse().ok());
        match name {
            "exclusive" => self.shared = exclusive(value),
            "oversubscribe" => self.shared = Exclusive::Oversubscribe,
            "sockets-per-node" => self.sockets = number,
            "cores-per-socket" => self.cores = number,
            "threads-per-core" => self.threads = number,
            "extra-node-info" => {
                let part = |index: usize| {
                    let part = value?.split(':').nth(index)?.split('-').next()?;
                    part.parse::<u64>().ok()
                };
                (self.sockets, self.cores, self.threads) = (part(0), part(1), part(2));
            }
            "nodelist" => drop(self.values.remove("nodefile")),
            "nodefile" => drop(self.values.remove("nodelist")),
            _ => {}
        }
        self.values.insert(name, setting);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.values.remove(name);
    }

    pub(super) fn get(&self, name: &str) -> Option<&GivenOption> {
        self.values.get(name)
    }

    /// Returns the text of an option.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.value.as_deref()
    }

    /// Returns the number of a validated option; `None` for a placeholder.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim().parse().ok()
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns whether the last setting of an option is from the script or the command line.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.get(name).is_some_and(|setting| !setting.is_of_environment)
    }

    /// Returns whether the last setting of an option is from an environment variable.
    pub(super) fn is_of_environment(&self, name: &str) -> bool {
        self.get(name).is_some_and(|setting| setting.is_of_environment)
    }

    /// Returns whether the value of an option is known only later.
    pub(super) fn is_unknown(&self, name: &str) -> bool {
        self.get(name).is_some_and(|setting| match setting.placeholder {
            None => false,
            Some(Placeholder::Template) => true,
            // Slurm uses the text of a variable unchanged.
            Some(Placeholder::Variable) => !TEXTS.contains(&name),
        })
    }

    /// Returns whether any value that affects the request is known only later.
    pub(super) fn has_unknown(&self) -> bool {
        self.values.keys().any(|name| self.is_unknown(name) && !UNASKED.contains(name))
    }

    /// Returns the last of `--exclusive` and `--oversubscribe`; without `--exclusive`, `No`.
    pub(super) fn exclusive(&self) -> Exclusive {
        if self.is_set("exclusive") { self.shared } else { Exclusive::No }
    }

    /// Returns remarks on the placeholders in options that affect the request.
    pub(super) fn unknown(&self) -> Vec<LineRemark> {
        let is_asked = |name: &str| !UNASKED.contains(&name);
        let mut all: Vec<&GivenOption> = self
            .values
            .iter()
            .filter(|(name, setting)| setting.placeholder.is_some() && is_asked(name))
            .map(|(_, setting)| setting)
            .collect();
        all.sort_by_key(|setting| setting.order);
        all.into_iter()
            .map(|setting| LineRemark {
                line: setting.line,
                text: setting.text.clone(),
                why: match setting.placeholder {
                    Some(Placeholder::Variable) => {
                        "Slurm does not expand variables: the value is known only after something replaces this one"
                    }
                    _ => "the value is known only after something replaces this placeholder",
                }
                .to_owned(),
            })
            .collect()
    }

    /// Returns why Slurm refuses the first invalid value, except values that `sbatch` refuses immediately.
    pub(super) fn refusal(&self) -> Option<(Option<usize>, &str)> {
        let refused = self.values.values().filter_map(|given_option| {
            Some((given_option.order, given_option.line, given_option.refusal.as_deref()?))
        });
        refused.min_by_key(|(order, ..)| *order).map(|(_, line, why)| (line, why))
    }

    /// Returns the options with their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &GivenOption)> {
        self.values.iter().map(|(name, setting)| (*name, setting))
    }
}

/// Returns whether an environment variable unsets an option without a value: texts other than `yes`, a number
/// other than 0, and the empty text do.
pub(super) fn is_unset(option: OptionName, text: &str) -> bool {
    let is_number = text.parse::<i64>().is_ok_and(|number| number != 0);
    option.takes == ValueRule::Nothing && !(text.is_empty() || text.eq_ignore_ascii_case("yes") || is_number)
}

/// Returns the value of an option that an environment variable sets; `None` if the option then has no value.
pub(super) fn variable_value(option: OptionName, text: &str) -> Option<&str> {
    let has_value =
        option.takes == ValueRule::Value || option.takes == ValueRule::MaybeValue && !text.is_empty();
    has_value.then_some(text)
}

fn exclusive(value: Option<&str>) -> Exclusive {
    match value.map(str::to_ascii_lowercase).as_deref() {
        Some("user") => Exclusive::User,
        Some("mcs") => Exclusive::Mcs,
        Some("topo") => Exclusive::Topology,
        Some("oversubscribe") => Exclusive::Oversubscribe,
        _ => Exclusive::Nodes,
    }
}
