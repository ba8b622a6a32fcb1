//! `hsched when SCRIPT --request`: the request of a batch script, as `sbatch` reads it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::app::context::{Context, Format};
use crate::app::input;
use crate::commands::cli::{json_text, print};
use crate::settings::process_environment;
use hsched_slurm::amount;
use hsched_slurm::script::{
    Exclusive, LineRemark, ResourceRequest, ScriptReading, ScriptRequest, ScriptSource, TimeLimit,
    read_script,
};
use hsched_ui::{Exit, Failure, wrap};

const INDENT: &str = "  ";

/// Width of the column of names.
const NAMES: usize = 12;

/// Prints the request of a script, or of the options alone if there is no path.
///
/// # Errors
/// If the file cannot be read (exit 78).
pub(in crate::commands) fn run(
    context: &Context,
    path: Option<&Path>,
    options: &[String],
    format: Format,
) -> Result<Exit, Failure> {
    let script = path.map(input::raw_bytes).transpose()?;
    let named = path.filter(|path| *path != Path::new("-")).and_then(Path::file_name);
    let file_name = named.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let environment: BTreeMap<String, String> = process_environment()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let reading = read_script(&ScriptSource {
        script: script.as_deref(),
        file_name: &file_name,
        command_line: options,
        environment: &environment,
        version: None,
    });
    let name = path.map_or_else(|| "the request".to_owned(), input::name);
    let text = match format {
        Format::Json => json_text(&reading.to_json())?,
        Format::Table => summary(&reading, &name, context.terminal.width()),
    };
    print(context, &text)?;
    Ok(Exit::Done)
}

/// Returns the interpretation of a script as text.
fn summary(reading: &ScriptReading, name: &str, width: usize) -> String {
    let mut text = String::new();
    if let Some(why) = &reading.refused {
        text.push_str(&wrap(&format!("sbatch would refuse {name}: {why}"), width, "  "));
        text.push('\n');
    }
    if let Some(request) = &reading.request {
        text.push_str(&request_text(request, name));
    }
    let lists =
        [("Not known:", &reading.unknown), ("Not checked:", &reading.site_names), ("Notes:", &reading.notes)];
    for (title, remarks) in lists {
        if !remarks.is_empty() {
            let _ = writeln!(text, "{title}");
        }
        for remark in remarks {
            let lines = wrap(&remark_text(remark), width.saturating_sub(INDENT.len()), INDENT);
            let _ = writeln!(text, "{INDENT}{lines}");
        }
    }
    text
}

fn remark_text(remark: &LineRemark) -> String {
    let place = remark.line.map(|line| format!("line {line}: ")).unwrap_or_default();
    let what = if remark.text.is_empty() { String::new() } else { format!("{}: ", remark.text) };
    format!("{place}{what}{}", remark.why)
}

fn request_text(request: &ScriptRequest, name: &str) -> String {
    let mut text = format!("{name} asks for:\n");
    if let Some(array) = request.array {
        let tasks = number(array.tasks);
        let limit = array.limit.map(|limit| format!(", at most {limit} at a time")).unwrap_or_default();
        line(&mut text, "array", &format!("{tasks} tasks{limit}, each with"));
    }
    if request.components.is_empty() {
        resource_text(&mut text, &request.total);
    } else {
        line(&mut text, "GPUs", &format!("{} in all components", number(request.total.gpus_total)));
    }
    for (index, component) in request.components.iter().enumerate() {
        let _ = writeln!(text, "component {index} of a heterogeneous job:");
        resource_text(&mut text, component);
    }
    text
}

fn resource_text(text: &mut String, request: &ResourceRequest) {
    line(text, "nodes", &nodes(request));
    line(text, "GPUs", &gpus(request));
    let cpus = match request.cpus_per_gpu {
        Some(1) => "1 CPU for each GPU".to_owned(),
        Some(cpus) => format!("{cpus} CPUs for each GPU"),
        None if request.cpus_per_task == Some(1) => "1 CPU each".to_owned(),
        None => format!("{} CPUs each", number(request.cpus_per_task)),
    };
    line(text, "tasks", &format!("{}, {cpus}", number(request.ntasks)));
    line(text, "memory", &memory(request));
    line(text, "time limit", &time(request.time_limit));
    let texts = [
        ("partition", &request.partition),
        ("account", &request.account),
        ("QOS", &request.qos),
        ("constraint", &request.constraint),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            line(text, name, value);
        }
    }
    if request.exclusive != Exclusive::No {
        line(text, "exclusive", request.exclusive.word().unwrap_or_default());
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:NAMES$}{value}");
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "not known".to_owned(), |value| value.to_string())
}

fn nodes(request: &ResourceRequest) -> String {
    match (request.nodes_min, request.nodes_max) {
        (None, _) => number(None),
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("{least}, or more if the tasks need them"),
    }
}

fn gpus(request: &ResourceRequest) -> String {
    let Some(total) = request.gpus_total else { return number(None) };
    if total == 0 {
        return "0".to_owned();
    }
    let kind = request.gpu_type.as_ref().map(|kind| format!(" {kind}")).unwrap_or_default();
    let least = if request.gpus_total_is_minimum { "at least " } else { "" };
    let split = request
        .gpus_per_node
        .map(|gpus_per_node| format!(", {gpus_per_node} on each node"))
        .unwrap_or_default();
    format!("{least}{total}{kind}{split}")
}

fn memory(request: &ResourceRequest) -> String {
    let amount = |mebibytes: u64| {
        if mebibytes > 0 && mebibytes.is_multiple_of(1024) {
            format!("{} GiB", mebibytes / 1024)
        } else {
            format!("{mebibytes} MiB")
        }
    };
    match (request.mem_mb_per_node, request.mem_mb_per_cpu, request.mem_mb_per_gpu) {
        (Some(0), ..) | (None, Some(0), _) => "all of each node".to_owned(),
        (Some(mebibytes), ..) => format!("{} on each node", amount(mebibytes)),
        (_, Some(mebibytes), _) => format!("{} for each CPU", amount(mebibytes)),
        (.., Some(mebibytes)) => format!("{} for each GPU", amount(mebibytes)),
        (None, None, None) => "the default of the site".to_owned(),
    }
}

fn time(limit: Option<TimeLimit>) -> String {
    match limit {
        None => "the default of the partition".to_owned(),
        Some(TimeLimit::Unlimited) => "none".to_owned(),
        Some(TimeLimit::Seconds(seconds)) => amount::time_limit(seconds),
    }
}
