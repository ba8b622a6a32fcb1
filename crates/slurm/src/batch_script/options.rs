//! `#SBATCH` options: those that are keys of a job, those that Slurm gets as they are, and those that hsched decides.

use serde_json::json;

use super::{Imported, Line};
use crate::sbatch_words::{FLAGS, option};
use hsched_model::Bytes;
use hsched_model::formats::{duration_text, parse_duration, parse_size};

/// Options that are not taken over, and why.
const LEFT: [(&str, &str); 19] = [
    ("output", "the output goes to NAME.out in the workdir"),
    ("open-mode", "hsched opens the output in append mode"),
    ("requeue", "hsched resubmits jobs itself (key retries)"),
    ("no-requeue", "hsched resubmits jobs itself (key retries)"),
    ("comment", "hsched uses the comment to find its jobs"),
    ("nodelist", "hsched chooses the nodes"),
    ("nodefile", "hsched chooses the nodes"),
    ("clusters", "run hsched on the cluster itself"),
    ("gpu-bind", "every rank must see all GPUs of its node"),
    ("gpus-per-socket", "hsched chooses the GPUs"),
    ("ntasks-per-core", "hsched starts one rank per GPU"),
    ("ntasks-per-gpu", "hsched starts one rank per GPU"),
    ("ntasks-per-socket", "hsched starts one rank per GPU"),
    ("time-min", "the job requests the predicted time plus a margin, up to the key time"),
    ("wait", "hsched does not wait for its jobs"),
    ("parsable", "hsched reads what sbatch prints"),
    ("test-only", "use hsched submit --dry-run"),
    ("hetjob", "hsched makes heterogeneous jobs itself, and combines the options of the components"),
    ("packjob", "hsched makes heterogeneous jobs itself, and combines the options of the components"),
];

/// A number that an option gives, with its line.
type Count = Option<(usize, u32)>;

/// What a script asks for, where one option needs another to be understood.
#[derive(Default)]
pub(super) struct Asked {
    pub name: Option<(usize, String)>,
    /// Least and most.
    nodes: Option<(usize, (u32, u32))>,
    tasks: Count,
    tasks_per_node: Count,
    gpus: Count,
    gpus_per_node: Count,
    gpus_per_task: Count,
    cpus_per_task: Count,
    memory: Option<(usize, Bytes)>,
    memory_per_cpu: Option<(usize, Bytes)>,
    types: Vec<String>,
}

/// Says what is odd about how a directive is written.
pub(super) fn note_directive(line: &Line, imported: &mut Imported) {
    if words(line).is_none() {
        imported.remark(line.number, format!("{}: hsched cannot split this into words", line.text));
    }
}

/// Returns the words of a directive.
fn words(line: &Line) -> Option<Vec<String>> {
    let text = line.text.strip_prefix("#SBATCH")?;
    // sbatch ends a line at a #.
    let text = text.split(" #").next().unwrap_or(text);
    shell_words::split(text).ok()
}

/// Reads all directives.
pub(super) fn read(head: &[Line], imported: &mut Imported) -> Asked {
    let mut asked = Asked::default();
    for line in head.iter().filter(|line| line.text.starts_with("#SBATCH")) {
        let mut words = words(line).unwrap_or_default().into_iter().peekable();
        while let Some(word) = words.next() {
            let Some((name, attached)) = option(&word) else {
                imported.remark(line.number, format!("{word}: unknown option"));
                continue;
            };
            let apart = attached.is_none() && !FLAGS.contains(&name.as_str());
            let value = attached.or_else(|| words.next_if(|next| apart && !next.starts_with('-')));
            asked.take(line.number, &name, value.as_deref(), imported);
        }
    }
    asked
}

impl Asked {
    /// Takes in an option.
    fn take(&mut self, line: usize, name: &str, value: Option<&str>, imported: &mut Imported) {
        if let Some((_, why)) = LEFT.iter().find(|(left, _)| *left == name) {
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            return imported.remark(line, format!("--{name}{value}: {why}"));
        }
        let taken = match (name, value) {
            ("job-name", Some(value)) => {
                self.name = Some((line, value.to_owned()));
                true
            }
            ("account" | "partition" | "qos" | "chdir", Some(value)) if !value.is_empty() => {
                let keys = [("account", "account"), ("partition", "partition"), ("qos", "qos")];
                let key = keys.iter().find(|(option, _)| *option == name).map_or("workdir", |(_, key)| key);
                imported.keys.insert(key, json!(value));
                true
            }
            ("time", Some(value)) => time(value).is_some_and(|own| {
                imported.keys.insert("time", json!(own));
                true
            }),
            ("array", Some(value)) => {
                imported.array = Some((line, value.to_owned()));
                true
            }
            ("signal", Some(value)) => signal(line, value, imported),
            ("gres" | "gpus" | "gpus-per-node" | "gpus-per-task", Some(value)) => {
                self.gpus(line, name, value, imported)
            }
            (
                "nodes" | "ntasks" | "ntasks-per-node" | "tasks-per-node" | "cpus-per-task" | "cpus-per-gpu",
                Some(value),
            ) => self.count(line, name, value, imported),
            ("mem" | "mem-per-cpu" | "mem-per-gpu", Some(value)) => self.memory(line, name, value, imported),
            (_, None) => {
                imported.push("sbatch", format!("--{name}"));
                true
            }
            (_, Some(value)) => {
                imported.push("sbatch", format!("--{name}={value}"));
                true
            }
        };
        if !taken {
            let value = value.unwrap_or_default();
            imported.remark(
                line,
                format!("--{name}={value}: hsched cannot read this value; set the key yourself"),
            );
        }
    }

    /// Takes in GPUs: `4`, `v100:4`, `gpu:v100:4`, several separated by commas.
    fn gpus(&mut self, line: usize, name: &str, value: &str, imported: &mut Imported) -> bool {
        let mut total: u32 = 0;
        for part in value.split(',') {
            let mut fields: Vec<&str> = part.split(':').collect();
            if name == "gres" && fields.first() != Some(&"gpu") {
                imported.remark(line, format!("--gres={part}: hsched plans only GPUs; if the site needs this, put it into the key sbatch"));
                continue;
            }
            if name == "gres" {
                fields.remove(0);
            }
            let (types, count) = match fields[..] {
                [] => (None, "1"),
                [own] if own.starts_with(|c: char| c.is_ascii_digit()) => (None, own),
                [own] => (Some(own), "1"),
                [own, count] => (Some(own), count),
                _ => return false,
            };
            let Ok(count) = count.parse::<u32>() else { return false };
            total = total.saturating_add(count);
            self.types.extend(types.map(str::to_owned));
        }
        let place = match name {
            "gpus" => &mut self.gpus,
            "gpus-per-task" => &mut self.gpus_per_task,
            _ => &mut self.gpus_per_node,
        };
        if total > 0 {
            *place = Some((line, total));
        }
        true
    }

    fn count(&mut self, line: usize, name: &str, value: &str, imported: &mut Imported) -> bool {
        let (least, most) = value.split_once('-').unwrap_or((value, value));
        let (Ok(least), Ok(most)) = (least.parse::<u32>(), most.parse::<u32>()) else { return false };
        if least == 0 || most < least || (least != most && name != "nodes") {
            return false;
        }
        let count = Some((line, least));
        match name {
            "nodes" => self.nodes = Some((line, (least, most))),
            "ntasks" => self.tasks = count,
            "cpus-per-task" => self.cpus_per_task = count,
            "cpus-per-gpu" => drop(imported.keys.insert("cpus_per_gpu", json!(least))),
            _ => self.tasks_per_node = count,
        }
        true
    }

    fn memory(&mut self, line: usize, name: &str, value: &str, imported: &mut Imported) -> bool {
        let Some(bytes) = memory(value) else { return false };
        match name {
            "mem" if bytes.0 == 0 => {
                imported.remark(
                    line,
                    "--mem=0: hsched does not request all memory of a node; set memory_per_gpu",
                );
            }
            "mem" => self.memory = Some((line, bytes)),
            "mem-per-cpu" => self.memory_per_cpu = Some((line, bytes)),
            _ => drop(imported.keys.insert("memory_per_gpu", json!(bytes.to_string()))),
        }
        true
    }

    /// Makes keys of what needs several options to be understood.
    pub(super) fn finish(self, imported: &mut Imported) {
        let (least, most) = self.nodes.map_or((1, 1), |(_, nodes)| nodes);
        let tasks_per_node = match (self.tasks_per_node, self.tasks) {
            (Some((_, own)), _) => own,
            (None, Some((_, own))) => own.div_ceil(least).max(1),
            (None, None) => 1,
        };
        let of_node = |nodes: u32, own: u32| nodes.saturating_mul(own);
        let per_node = match (self.gpus_per_node, self.gpus_per_task, self.gpus) {
            (Some((_, own)), ..) => Some(own),
            (None, Some((_, own)), _) => Some(tasks_per_node.saturating_mul(own)),
            (None, None, Some((_, all))) => Some(all.div_ceil(least)),
            (None, None, None) => None,
        };
        let range = match (self.gpus, per_node) {
            (Some((_, all)), _) => Some((all, all)),
            (None, Some(own)) => Some((of_node(least, own), of_node(most, own))),
            (None, None) => None,
        };
        match range {
            Some((least, most)) if least == most => drop(imported.keys.insert("gpus", json!(least))),
            Some((least, most)) => {
                imported.keys.insert("min_gpus", json!(least));
                imported.keys.insert("max_gpus", json!(most));
            }
            None => {}
        }
        let line = [self.gpus_per_node, self.gpus_per_task, self.gpus]
            .iter()
            .flatten()
            .next()
            .map_or(1, |own| own.0);
        imported.set_types(line, &self.types);
        self.share(per_node.unwrap_or(1).max(1), tasks_per_node, imported);
    }

    /// Divides CPUs and memory among the GPUs of a node.
    fn share(&self, gpus: u32, tasks_per_node: u32, imported: &mut Imported) {
        if let Some((line, cpus)) = self.cpus_per_task.filter(|_| !imported.keys.contains_key("cpus_per_gpu"))
        {
            let all = cpus.saturating_mul(tasks_per_node);
            imported.keys.insert("cpus_per_gpu", json!((all / gpus).max(1)));
            if all % gpus != 0 {
                imported.remark(
                    line,
                    format!("{all} CPUs of a node for {gpus} GPUs: cpus_per_gpu is rounded down"),
                );
            }
        }
        let cpus = imported.keys.get("cpus_per_gpu").and_then(serde_json::Value::as_u64);
        let memory = match (self.memory, self.memory_per_cpu) {
            (Some((_, all)), _) => Some(Bytes(all.0 / u64::from(gpus))),
            (None, Some((line, own))) => {
                if cpus.is_none() {
                    imported
                        .remark(line, "--mem-per-cpu: the script gives no number of CPUs; hsched assumes 1");
                }
                Some(Bytes(own.0.saturating_mul(cpus.unwrap_or(1))))
            }
            (None, None) => None,
        };
        if let Some(memory) = memory {
            imported.keys.entry("memory_per_gpu").or_insert_with(|| json!(memory.to_string()));
        }
    }
}

/// Returns a time limit of Slurm's as a job file has it; a bare number is minutes, `a:b` minutes and seconds.
fn time(value: &str) -> Option<String> {
    let text = match (value.parse::<u64>(), value.matches(':').count()) {
        (Ok(minutes), _) => format!("{minutes}m"),
        (Err(_), 1) if !value.contains('-') => format!("00:{value}"),
        _ => value.to_owned(),
    };
    let Ok(duration) = parse_duration(&text) else {
        // Slurm takes more than 59 minutes for what they are.
        let (minutes, seconds) = value.split_once(':')?;
        let seconds = minutes.parse::<u32>().ok()?.checked_mul(60)?.checked_add(seconds.parse().ok()?)?;
        return Some(format!("{seconds}s"));
    };
    (duration.0 > 0.0).then(|| {
        if text.ends_with('m') || text.contains(':') || text.contains('-') {
            text
        } else {
            duration_text(duration)
        }
    })
}

/// Returns an amount of memory of Slurm's, in MiB where no unit is given.
fn memory(value: &str) -> Option<Bytes> {
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match value[number.len()..].to_ascii_uppercase().as_str() {
        "K" | "KB" => "KiB",
        "" | "M" | "MB" => "MiB",
        "G" | "GB" => "GiB",
        "T" | "TB" => "TiB",
        _ => return None,
    };
    parse_size(&format!("{number}{unit}")).ok()
}

/// Takes in when and how the job is told of its end: `B:USR1@120`.
fn signal(line: usize, value: &str, imported: &mut Imported) -> bool {
    let (signal, time) = value.split_once('@').unwrap_or((value, "60"));
    let Ok(seconds) = time.parse::<u32>() else { return false };
    let signal = signal.rsplit(':').next().unwrap_or(signal).trim_start_matches("SIG");
    imported.put("checkpoint", "grace", &format!("{}s", seconds.max(1)));
    if !["USR1", "10"].contains(&signal) {
        imported.remark(
            line,
            format!(
                "--signal={value}: hsched sends SIGUSR1, not {signal}; the training must save on SIGUSR1"
            ),
        );
    }
    true
}
