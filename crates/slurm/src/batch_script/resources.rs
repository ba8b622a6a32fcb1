//! The total resources that a script requests, as keys of a job: GPUs, CPUs and memory per GPU, and a time
//! limit.

use serde_json::json;

use super::ImportedJob;
use super::options::line;
use crate::amount::time_limit;
use crate::script::{ResourceRequest, ScriptReading, TimeLimit};
use hsched_model::Bytes;

/// Bytes per mebibyte.
const MEBIBYTE: u64 = 1 << 20;

/// Imports the requested resources.
pub(super) fn read(reading: &ScriptReading, imported: &mut ImportedJob) {
    let Some(request) = &reading.request else {
        return imported.todo("gpus", "what the script asks for cannot be told; see the remarks");
    };
    if !request.components.is_empty() {
        let count = request.components.len();
        imported.remark(
            1,
            format!("the script asks for a heterogeneous job of {count} components; hsched makes one job of it: set gpus, cpus_per_gpu and memory_per_gpu yourself"),
        );
        return imported.todo("gpus", "the script asks for a heterogeneous job");
    }
    let asked = ScriptResources { reading, total: &request.total };
    asked.nodes(imported);
    asked.gpus(imported);
    asked.cpus(imported);
    asked.memory(imported);
    asked.time(imported);
}

struct ScriptResources<'a> {
    reading: &'a ScriptReading,
    total: &'a ResourceRequest,
}

impl ScriptResources<'_> {
    /// Returns the line of the last among some options.
    fn line(&self, names: &[&str]) -> usize {
        self.reading
            .options
            .iter()
            .rfind(|script_option| names.contains(&script_option.name.as_str()))
            .map_or(1, line)
    }

    fn is_set(&self, names: &[&str]) -> bool {
        self.reading.options.iter().any(|script_option| names.contains(&script_option.name.as_str()))
    }

    /// Adds the remark that hsched chooses the number of nodes, if the script asks for several.
    fn nodes(&self, imported: &mut ImportedJob) {
        let most = self.total.nodes_max.or(self.total.nodes_min);
        if most.is_some_and(|most| most > 1) {
            let nodes = match (self.total.nodes_min, self.total.nodes_max) {
                (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
                _ => most.unwrap_or_default().to_string(),
            };
            imported.remark(
                self.line(&["nodes", "nodelist", "ntasks", "ntasks-per-node"]),
                format!("the script asks for {nodes} nodes: hsched chooses on how many nodes the GPUs are"),
            );
        }
    }

    fn gpus(&self, imported: &mut ImportedJob) {
        let names = ["gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "tres-per-task"];
        let line = self.line(&names);
        match (self.total.gpus_total, self.total.nodes_min, self.total.nodes_max) {
            (None, ..) => imported.todo("gpus", "the script does not say how many; see the remarks"),
            (Some(0), ..) => {
                imported.remark(
                    line,
                    "the script asks for no GPU; hsched plans jobs on GPUs, and chooses how many",
                );
            }
            (Some(all), Some(least), Some(most))
                if self.total.gpus_total_is_minimum && least > 0 && most > least =>
            {
                imported.keys.insert("min_gpus", json!(all));
                imported.keys.insert("max_gpus", json!(all / least * most));
            }
            (Some(all), ..) => {
                imported.keys.insert("gpus", json!(all));
                if self.total.gpus_total_is_minimum {
                    let gpus = if all == 1 { "1 GPU".to_owned() } else { format!("{all} GPUs") };
                    imported.remark(
                        line,
                        format!("Slurm may take more nodes for the tasks, and so more than {gpus}; the job asks for {all}"),
                    );
                }
            }
        }
        let types = self.total.gpu_shares.iter().filter_map(|share| share.kind.as_ref());
        imported.set_types(line, types.collect());
    }

    /// Divides the CPUs of all tasks among the GPUs.
    fn cpus(&self, imported: &mut ImportedJob) {
        if let Some(cpus) = self.total.cpus_per_gpu {
            imported.keys.insert("cpus_per_gpu", json!(cpus));
            return;
        }
        let names = ["ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "tres-per-task"];
        let (Some(tasks), Some(each), Some(gpus)) =
            (self.total.ntasks, self.total.cpus_per_task, self.total.gpus_total)
        else {
            return;
        };
        let cpus = tasks.saturating_mul(each);
        if gpus == 0 || !self.is_set(&names) {
            return;
        }
        let line = self.line(&names);
        if cpus > 1 {
            imported.keys.insert("cpus_per_gpu", json!((cpus / gpus).max(1)));
            if !cpus.is_multiple_of(gpus) {
                imported.remark(line, format!("{cpus} CPUs for {gpus} GPUs: cpus_per_gpu is rounded"));
            }
        } else if gpus > 1 && self.is_set(&["cpus-per-task"]) {
            imported.remark(line, format!("1 CPU for {gpus} GPUs: each GPU gets the usual number of CPUs"));
        }
    }

    /// Divides the memory among the GPUs.
    fn memory(&self, imported: &mut ImportedJob) {
        let per_node = self.total.gpus_per_node.or_else(|| {
            let (gpus, nodes) = (self.total.gpus_total?, self.total.nodes_min.filter(|nodes| *nodes > 0)?);
            Some(gpus.div_ceil(nodes))
        });
        let cpus = imported.keys.get("cpus_per_gpu").and_then(serde_json::Value::as_u64);
        let mebibytes =
            match (self.total.mem_mb_per_node, self.total.mem_mb_per_cpu, self.total.mem_mb_per_gpu) {
                (Some(0), ..) | (None, Some(0), _) | (None, None, Some(0)) => {
                    let names = ["mem", "mem-per-cpu", "mem-per-gpu"];
                    let script_option = self
                        .reading
                        .options
                        .iter()
                        .rfind(|script_option| names.contains(&script_option.name.as_str()));
                    let name = script_option.map_or("mem", |script_option| script_option.name.as_str());
                    return imported.remark(
                        script_option.map_or(1, line),
                        format!(
                            "--{name}=0: hsched does not request all memory of a node; set memory_per_gpu"
                        ),
                    );
                }
                (Some(all), ..) => {
                    per_node.filter(|gpus| *gpus > 0).map(|gpus| all.saturating_mul(MEBIBYTE) / gpus)
                }
                (_, Some(each), _) => {
                    if cpus.is_none() {
                        let line = self.line(&["mem-per-cpu"]);
                        imported.remark(
                            line,
                            "--mem-per-cpu: the script gives no number of CPUs; hsched assumes 1",
                        );
                    }
                    Some(each.saturating_mul(cpus.unwrap_or(1)).saturating_mul(MEBIBYTE))
                }
                (.., Some(each)) => Some(each.saturating_mul(MEBIBYTE)),
                (None, None, None) => return,
            };
        match mebibytes {
            Some(bytes) => drop(imported.keys.insert("memory_per_gpu", json!(Bytes(bytes).to_string()))),
            None => imported.remark(
                self.line(&["mem"]),
                "--mem: the GPUs of a node are not known; set memory_per_gpu yourself",
            ),
        }
    }

    fn time(&self, imported: &mut ImportedJob) {
        match self.total.time_limit {
            None => {}
            Some(TimeLimit::Unlimited) => imported.remark(
                self.line(&["time"]),
                "--time: the script asks for no time limit; the job file has no key time then",
            ),
            Some(TimeLimit::Seconds(seconds)) => {
                imported.keys.insert("time", json!(time_limit(seconds)));
            }
        }
    }
}
