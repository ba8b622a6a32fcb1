//! Job arrays: one job for each task, as a sweep over the values that the tasks use or over their numbers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::words::{assignment, literal, split, without_comment};
use super::{ImportedJob, LogicalLine, order};
use hsched_model::formats::is_sweep_key;

/// Maximum number of tasks that become values of a sweep.
const MOST: usize = 100;

/// The variable with a task's number.
const ID: &str = "SLURM_ARRAY_TASK_ID";

/// A shell array, with the lines that define it.
struct ShellArray {
    name: String,
    values: Vec<String>,
    text: String,
    lines: std::ops::Range<usize>,
}

/// Turns a job array into a sweep, and returns the script's commands with the sweep's variables; returns the
/// commands unchanged if there is no array, or if it cannot become a sweep.
pub(super) fn rewrite(lines: &[LogicalLine], imported: &mut ImportedJob) -> Vec<LogicalLine> {
    let Some((at, asked)) = imported.array.clone() else { return lines.to_vec() };
    if let Some((_, most)) = asked.split_once('%') {
        imported.remark(
            at,
            format!("%{most}: hsched starts as many jobs as there are GPUs for; the setting capacity limits the GPUs"),
        );
    }
    let Some(tasks) = numbers(&asked) else {
        imported.remark(
            at,
            format!("--array={asked}: becomes one job, not an array; a sweep makes one job for each value (see the comment at sweep)"),
        );
        return lines.to_vec();
    };
    imported.array = None;
    let arrays = arrays(lines);
    if let Some((key, values, text, left)) = over_values(lines, &arrays, &tasks) {
        imported.keys.insert("sweep", json!({ key: values }));
        imported.remark(at, format!("--array={asked}: one job for each value of {text} (key sweep)"));
        return left;
    }
    let tasks: Vec<Value> = tasks.into_iter().map(Value::from).collect();
    imported.keys.insert("sweep", json!({ "task": tasks }));
    imported.remark(
        at,
        format!("--array={asked}: one job for each task (key sweep), with the number of the task as $TASK"),
    );
    let mut left = without(
        lines,
        arrays
            .iter()
            .filter(|shell_array| is_used(lines, shell_array))
            .map(|shell_array| shell_array.lines.clone()),
    );
    for array in arrays.iter().filter(|shell_array| is_used(lines, shell_array)) {
        imported.push("node_setup", array.text.as_str());
    }
    for line in &mut left {
        line.text = line.text.replace(ID, "TASK");
    }
    left
}

/// Returns the task numbers of an array; `None` if there are too many or they are unclear.
fn numbers(array: &str) -> Option<Vec<u64>> {
    let list = array.split('%').next().unwrap_or(array);
    let mut all: Vec<u64> = Vec::new();
    for part in list.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let step: usize = step.parse().ok()?;
        all.extend((first..=last).step_by(step.max(1)).take(MOST + 1));
        if all.len() > MOST {
            return None;
        }
    }
    let distinct: BTreeSet<&u64> = all.iter().collect();
    (!all.is_empty() && distinct.len() == all.len()).then_some(all)
}

/// Returns the arrays with only literal words.
fn arrays(lines: &[LogicalLine]) -> Vec<ShellArray> {
    let mut all = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let text = line.text.strip_prefix("declare -a ").unwrap_or(&line.text);
        let Some((name, _)) = assignment(text).filter(|(_, value)| value.starts_with('(')) else { continue };
        let Some(last) =
            (first..lines.len()).find(|place| without_comment(&lines[*place].text).ends_with(')'))
        else {
            continue;
        };
        // Without comments, which would hide the rest of the joined line.
        let inside: Vec<&str> = lines[first..=last].iter().map(|line| without_comment(&line.text)).collect();
        let text = inside.join(" ");
        let values = text.split_once('(').and_then(|(_, rest)| split(rest.strip_suffix(')')?));
        let Some(values) = values.and_then(|words| words.iter().map(|word| literal(word)).collect()) else {
            continue;
        };
        all.push(ShellArray { name: name.to_owned(), values, text, lines: first..last + 1 });
    }
    all
}

fn is_used(lines: &[LogicalLine], array: &ShellArray) -> bool {
    lines.iter().any(|line| line.text.contains(&format!("${{{}[", array.name)))
}

/// Returns the notations for a task's array element in a script; task numbers may start at 1.
fn elements(name: &str, from: u64) -> Vec<String> {
    let mut all = Vec::new();
    for id in [format!("${ID}"), format!("${{{ID}}}"), ID.to_owned()] {
        let places = if from == 0 {
            vec![id.clone(), format!("$(({id}))")]
        } else {
            ["-", " - "]
                .iter()
                .flat_map(|minus| [format!("{id}{minus}1"), format!("$(({id}{minus}1))")])
                .collect()
        };
        all.extend(places.into_iter().map(|place| format!("${{{name}[{place}]}}")));
    }
    all
}

/// Returns the sweep's key with its values, the array that contains them, and the remaining commands, if the
/// script uses the task number only to take an element of one array.
fn over_values(
    lines: &[LogicalLine],
    arrays: &[ShellArray],
    tasks: &[u64],
) -> Option<(String, Vec<String>, String, Vec<LogicalLine>)> {
    let commands = || lines.iter().filter(|line| !line.text.starts_with('#'));
    let uses = |array: &ShellArray, from: u64| {
        let elements = elements(&array.name, from);
        commands().any(|line| elements.iter().any(|element| line.text.contains(element)))
    };
    let pairs = arrays.iter().flat_map(|array| [(array, 0), (array, 1)]);
    let used: Vec<(&ShellArray, u64)> = pairs.filter(|(array, from)| uses(array, *from)).collect();
    let [(array, from)] = used[..] else { return None };
    let values: Option<Vec<String>> = tasks
        .iter()
        .map(|task| array.values.get(usize::try_from(task.checked_sub(from)?).ok()?).cloned())
        .collect();
    let values = values?;
    let elements = elements(&array.name, from);
    let assigned = lines.iter().find_map(|line| taken(&line.text, &elements));
    let variable = assigned.unwrap_or_else(|| array.name.strip_suffix(['s', 'S']).unwrap_or(&array.name));
    let (key, upper) = (variable.to_lowercase(), variable.to_uppercase());
    let distinct: BTreeSet<&String> = values.iter().collect();
    let is_set = |line: &LogicalLine| {
        let word = line.text.strip_prefix("export ").unwrap_or(&line.text);
        assignment(word).is_some_and(|(name, _)| name == variable || name == upper)
    };
    let mut left = without(lines, std::iter::once(array.lines.clone()));
    left.retain(|line| taken(&line.text, &elements) != Some(variable));
    if distinct.len() < values.len() || !is_sweep_key(&key) || left.iter().any(is_set) {
        return None;
    }
    for line in &mut left {
        for element in &elements {
            line.text = line.text.replace(element, &format!("${{{upper}}}"));
        }
        if variable != upper {
            line.text = renamed(&line.text, variable, &upper);
        }
    }
    // The old name, which nothing would set, in a form such as `${lr/./_}` or `$((lr * 2))`.
    let is_left = |line: &LogicalLine| !line.text.starts_with('#') && order::uses(&line.text, variable);
    if variable != upper && left.iter().any(is_left) {
        return None;
    }
    let other =
        |line: &LogicalLine| line.text.contains(ID) || line.text.contains(&format!("{}[", array.name));
    let speaks =
        |line: &LogicalLine| ["echo ", "printf ", "#"].iter().any(|word| line.text.starts_with(word));
    let is_all = !left.iter().any(|line| other(line) && !speaks(line));
    is_all.then(|| (key, values, array.name.clone(), left))
}

/// Returns the variable that a line sets to an element, if the line does nothing else.
fn taken<'a>(text: &'a str, elements: &[String]) -> Option<&'a str> {
    let (name, value) = assignment(text.strip_prefix("export ").unwrap_or(text))?;
    elements.iter().any(|element| value.trim_matches('"') == element).then_some(name)
}

/// Returns the lines outside these ranges.
fn without(lines: &[LogicalLine], ranges: impl Iterator<Item = std::ops::Range<usize>>) -> Vec<LogicalLine> {
    let ranges: Vec<std::ops::Range<usize>> = ranges.collect();
    let is_left = |place: usize| !ranges.iter().any(|range| range.contains(&place));
    lines.iter().enumerate().filter(|(place, _)| is_left(*place)).map(|(_, line)| line.clone()).collect()
}

/// Returns a text with a variable renamed.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let text = text.replace(&format!("${{{from}}}"), &format!("${{{to}}}"));
    let variable = format!("${from}");
    let mut parts = text.split(&variable);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let goes_on = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        out.push('$');
        out.push_str(if goes_on { from } else { to });
        out.push_str(part);
    }
    out
}
