//! A changed request as options of `sbatch`, in the form that the script uses.

use super::gpu_value::{GPU_OPTIONS, OTHER_GPU_OPTIONS, with_gpus};
use crate::amount::{minutes_limit, sbatch_memory};
use crate::script::{ResourceRequest, ScriptOption, ScriptReading};
use hsched_model::Request;
use hsched_queue::Change;

/// An option of `sbatch` and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The option's long name without dashes.
    pub name: String,
    pub value: String,
}

impl Setting {
    fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: value.into() }
    }
}

/// Returns settings as words for `sbatch`.
pub fn words(settings: &[Setting]) -> Vec<String> {
    settings.iter().map(|setting| format!("--{}={}", setting.name, setting.value)).collect()
}

/// Returns the options that apply the changes to `request` in the form of the script; `None` if its options
/// do not allow that.
pub fn settings(reading: &ScriptReading, request: &Request, changes: &[Change]) -> Option<Vec<Setting>> {
    let asked = reading.request.as_ref().filter(|asked| asked.components.is_empty())?;
    let mut form =
        ChangedOptions { reading, asked: &asked.total, request: request.clone(), list: Vec::new() };
    for change in changes {
        form.take(change)?;
        change.apply(&mut form.request);
    }
    Some(form.list)
}

/// The options changed so far, and the request they express.
struct ChangedOptions<'a> {
    reading: &'a ScriptReading,
    asked: &'a ResourceRequest,
    request: Request,
    list: Vec<Setting>,
}

impl ChangedOptions<'_> {
    /// Returns the current value of an option.
    fn value(&self, name: &str) -> Option<String> {
        let changed =
            self.list.iter().find(|setting| setting.name == name).map(|setting| setting.value.clone());
        changed.or_else(|| effective(self.reading, name)?.value.clone())
    }

    fn set(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        if self.value(name).as_ref() == Some(&value) {
            return;
        }
        match self.list.iter_mut().find(|setting| setting.name == name) {
            Some(setting) => setting.value = value,
            None => self.list.push(Setting::new(name, value)),
        }
    }

    /// Adds the options of a change.
    fn take(&mut self, change: &Change) -> Option<()> {
        match change {
            Change::Limit(limit) => self.set("time", minutes_limit(*limit)),
            Change::Partition(names) => self.set("partition", names.as_str()),
            Change::Account(name) => self.set("account", name.as_str()),
            Change::Qos(name) => self.set("qos", name.as_str()),
            Change::GpuType(gpu_type) => self.set_gpus(|_| None, Some(gpu_type.as_str()))?,
            Change::Gpus { nodes, per_node } => self.set_layout(u64::from(*nodes), u64::from(*per_node))?,
            Change::Cpus(count) => self.set_cpus(*count)?,
            Change::Memory(mebibytes) => self.set_memory(*mebibytes)?,
        }
        Some(())
    }

    /// Changes all options that request GPUs; `count` gives the new number of each, if it changes.
    fn set_gpus(&mut self, count: impl Fn(&str) -> Option<u64>, gpu_type: Option<&str>) -> Option<()> {
        if OTHER_GPU_OPTIONS.iter().any(|name| self.value(name).is_some()) {
            return None;
        }
        let mut is_any = false;
        for (name, _) in GPU_OPTIONS {
            let Some(value) = self.value(name) else { continue };
            let count = count(name).and_then(|count| u32::try_from(count).ok());
            let value = with_gpus(name, &value, gpu_type, count)?;
            self.set(name, value);
            is_any = true;
        }
        is_any.then_some(())
    }

    /// Changes the number of nodes, the GPUs per node, and the values that depend on them.
    fn set_layout(&mut self, nodes: u64, per_node: u64) -> Option<()> {
        let before = u64::from(self.request.asks.nodes);
        let before_per_node = self.gpus_per_node();
        let tasks = self.tasks_per_node()?;
        // The script has one task per GPU, or one task per node that starts the other processes itself.
        let tasks_now = match tasks {
            1 => 1,
            tasks if tasks == before_per_node => per_node,
            _ => return None,
        };
        let all = nodes * per_node;
        let count = |name: &str| match name {
            "gpus" => Some(all),
            "gpus-per-task" => None,
            _ => Some(per_node),
        };
        self.set_gpus(count, None)?;
        if self.value("gpus-per-task").is_some() && tasks == 1 && per_node != before_per_node {
            return None;
        }
        if nodes != before {
            self.set("nodes", nodes.to_string());
        }
        if self.value("ntasks").is_some() {
            self.set("ntasks", (nodes * tasks_now).to_string());
        }
        if self.value("ntasks-per-node").is_some() {
            self.set("ntasks-per-node", tasks_now.to_string());
        }
        if per_node != before_per_node && tasks == 1 && self.value("cpus-per-task").is_some() {
            let cpus = self.request.asks.cpus?.saturating_mul(per_node).div_ceil(before_per_node);
            self.set("cpus-per-task", cpus.to_string());
        }
        if per_node != before_per_node && self.asked.mem_mb_per_node.is_some_and(|amount| amount > 0) {
            let memory = self.request.asks.memory_mib?.saturating_mul(per_node).div_ceil(before_per_node);
            self.set("mem", sbatch_memory(memory));
        }
        Some(())
    }

    fn set_cpus(&mut self, count: u64) -> Option<()> {
        let (name, parts) = match (self.value("cpus-per-gpu"), self.value("cpus-per-task")) {
            (Some(_), _) => ("cpus-per-gpu", self.gpus_per_node()),
            (None, Some(_)) => ("cpus-per-task", self.tasks_per_node()?),
            (None, None) => return None,
        };
        let each = count.checked_div(parts).filter(|each| *each > 0)?;
        self.set(name, each.to_string());
        Some(())
    }

    fn set_memory(&mut self, count: u64) -> Option<()> {
        let (name, parts) = if self.value("mem-per-cpu").is_some() {
            ("mem-per-cpu", self.request.asks.cpus?)
        } else if self.value("mem-per-gpu").is_some() {
            ("mem-per-gpu", self.gpus_per_node())
        } else {
            ("mem", 1)
        };
        let each = count.checked_div(parts).filter(|each| *each > 0)?;
        self.set(name, sbatch_memory(each));
        Some(())
    }

    fn gpus_per_node(&self) -> u64 {
        self.request.asks.gpus.iter().map(|ask| u64::from(ask.count)).sum()
    }

    fn tasks_per_node(&self) -> Option<u64> {
        Some(self.asked.ntasks?.div_ceil(u64::from(self.request.asks.nodes).max(1)).max(1))
    }
}

/// Returns the effective option with a name: the last one.
pub(super) fn effective<'a>(reading: &'a ScriptReading, name: &str) -> Option<&'a ScriptOption> {
    reading.options.iter().rev().find(|script_option| script_option.name == name)
}
