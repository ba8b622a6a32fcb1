//! Traces whose jobs are graphs of tasks: the keys `tasks` and `volumes_mb`.

use std::collections::BTreeMap;

use super::goals::read_deadline;
use super::jobs::label;
use super::problem::{Problems, ValueError, quoted};
use super::reader::{Fields, ReaderValue, all, read_file};
use crate::{Deadline, ErrorId, GraphJob, GraphTask, RESOURCES, Seconds};

/// A trace of graphs.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphFile {
    /// The initial time, from the trace's start.
    pub now: Seconds,
    pub jobs: Vec<GraphJob>,
}

/// Keys of a job; graphs have no epochs and batches.
const KEYS: [&str; 7] = ["name", "urgency", "losses", "deadline", "arrival", "volumes_mb", "tasks"];

/// The resources of a demand, in the order in which [`Server`](crate::Server) has them.
const DEMAND: [&str; RESOURCES] = ["gpu", "cpu", "memory", "bandwidth"];

/// Returns whether a text is a trace with a graph in a job.
pub fn is_graphs(text: &str) -> bool {
    // Long traces are not parsed twice: the key must occur literally, unless it is written with an escape.
    if !text.contains("tasks") && !text.contains('\\') {
        return false;
    }
    let has_tasks = |item: &ReaderValue<'_>| item.entries_quietly().iter().any(|(key, _)| *key == "tasks");
    let found = read_file(text, |root| {
        let jobs = root.entries_quietly().into_iter().find(|(key, _)| *key == "jobs");
        Some(jobs.is_some_and(|(_, list)| list.is_list() && list.items().iter().any(has_tasks)))
    });
    found.unwrap_or(false)
}

/// Parses a trace of graphs; `nodes` are the names and GPU counts of the cluster's nodes.
///
/// # Errors
/// With all problems of the text.
pub fn parse(text: &str, nodes: &[(String, usize)]) -> Result<GraphFile, Problems> {
    read_file(text, |root| {
        let fields = root.fields(&["jobs", "now"]);
        let now = fields.or("now", Seconds(0.0), ReaderValue::duration);
        let jobs = all(fields.required("jobs")?.items().iter().map(|item| read_job(item, nodes)));
        Some(GraphFile { now: now?, jobs: jobs? })
    })
}

fn read_job(value: &ReaderValue<'_>, nodes: &[(String, usize)]) -> Option<GraphJob> {
    let fields = value.fields(&KEYS);
    let name = fields.required("name").and_then(|name| name.parsed(label));
    let urgency = fields.or("urgency", 1.0, |value| {
        value.ranged(|number| (0.0..=10.0).contains(&number).then_some(number), "from 0 to 10")
    });
    let losses = fields.or("losses", Vec::new(), |value| all(value.items().iter().map(ReaderValue::number)));
    let arrival = fields.or("arrival", Seconds(0.0), ReaderValue::duration);
    let deadline = fields.or("deadline", None, |value| deadline(value).map(Some));
    let list = fields.required("tasks").map(ReaderValue::items);
    let tasks: Vec<ReaderValue<'_>> = list?;
    if tasks.is_empty() {
        value.report(ValueError::new("must have at least one task").id(ErrorId::TaskGraph));
        return None;
    }
    let ids = ids(&tasks)?;
    let read = all(tasks.iter().map(|task| read_task(task, &ids, nodes)));
    let volumes =
        fields.or("volumes_mb", Vec::new(), |value| all(value.items().iter().map(|item| volume(item, &ids))));
    let job = GraphJob {
        name: name?,
        urgency: urgency?,
        losses: losses?,
        deadline: deadline?,
        arrival: arrival?.0,
        volumes: volumes?,
        tasks: read?,
    };
    if job.children_first().is_none() {
        value.report(ValueError::new("has a cycle of tasks that wait for each other").id(ErrorId::TaskGraph));
    }
    Some(job)
}

/// Returns the indices of a job's tasks by id.
fn ids(tasks: &[ReaderValue<'_>]) -> Option<BTreeMap<String, usize>> {
    let mut ids = BTreeMap::new();
    for (place, task) in tasks.iter().enumerate() {
        let entries = task.entries_quietly();
        let Some((_, id)) = entries.iter().find(|(key, _)| *key == "id") else {
            task.report(ValueError::new("is missing the required key id").id(ErrorId::MissingKey));
            return None;
        };
        let name = id.text()?.to_owned();
        if ids.insert(name.clone(), place).is_some() {
            id.report(
                ValueError::new(format!("{} is already the id of a task", quoted(&name)))
                    .id(ErrorId::NameTaken),
            );
            return None;
        }
    }
    Some(ids)
}

fn read_task(
    value: &ReaderValue<'_>,
    ids: &BTreeMap<String, usize>,
    nodes: &[(String, usize)],
) -> Option<GraphTask> {
    let fields = value.fields(&["id", "size", "left_s", "waited_s", "children", "demand", "on"]);
    let amount = |fields: &Fields<'_>, key: &str, default: f64| {
        fields.or(key, default, |value| {
            value.ranged(|number| (0.0..=1e12).contains(&number).then_some(number), "from 0 to 1e12")
        })
    };
    let size = amount(&fields, "size", 1.0);
    fields.required("left_s");
    let left = amount(&fields, "left_s", 0.0);
    let waited = amount(&fields, "waited_s", 0.0);
    let children =
        fields.or("children", Vec::new(), |value| all(value.items().iter().map(|child| known(child, ids))));
    let demand = fields.or("demand", [0.0; RESOURCES], |value| {
        let fields = value.fields(&DEMAND);
        let values = DEMAND.map(|key| amount(&fields, key, 0.0));
        let values: Vec<f64> = all(values.into_iter())?;
        values.try_into().ok()
    });
    let on = fields
        .or("on", None, |value| if value.is_nothing() { Some(None) } else { place(value, nodes).map(Some) });
    Some(GraphTask {
        id: fields.get("id")?.text()?.to_owned(),
        size: size?,
        left: left?,
        waited: waited?,
        children: children?,
        demand: demand?,
        on: on?,
    })
}

fn known(value: &ReaderValue<'_>, ids: &BTreeMap<String, usize>) -> Option<usize> {
    let id = value.text()?;
    value.accept(ids.get(id).copied().ok_or_else(|| {
        ValueError::new(format!("no task of the job has the id {}", quoted(id))).id(ErrorId::TaskGraph)
    }))
}

/// Reads two tasks and the volume between them in MB.
fn volume(value: &ReaderValue<'_>, ids: &BTreeMap<String, usize>) -> Option<(usize, usize, f64)> {
    let items = value.items();
    let [a, b, amount] = items.as_slice() else {
        value.report(
            ValueError::new("must be two tasks and the MB that they exchange").id(ErrorId::TaskGraph),
        );
        return None;
    };
    let fits = |number: f64| (0.0..=1e12).contains(&number).then_some(number);
    Some((known(a, ids)?, known(b, ids)?, amount.ranged(fits, "from 0 to 1e12")?))
}

/// Reads a node and the index of one of its GPUs.
fn place(value: &ReaderValue<'_>, nodes: &[(String, usize)]) -> Option<(usize, usize)> {
    let items = value.items();
    let [node, gpu] = items.as_slice() else {
        value.report(
            ValueError::new("must be a node and the number of a GPU there, such as [gpu01, 0]")
                .id(ErrorId::TaskGraph),
        );
        return None;
    };
    let (name, number) = (node.text()?, gpu.whole(0..=1_000_000)?);
    let number = usize::try_from(number).ok()?;
    let found = nodes.iter().position(|(known, _)| known == name);
    let server = node.accept(found.ok_or_else(|| {
        ValueError::new(format!("the cluster has no node {}", quoted(name))).id(ErrorId::TaskGraph)
    }))?;
    if number >= nodes[server].1 {
        gpu.report(
            ValueError::new(format!("{name} has {} GPUs, counted from 0", nodes[server].1))
                .id(ErrorId::TaskGraph),
        );
        return None;
    }
    Some((server, number))
}

fn deadline(value: &ReaderValue<'_>) -> Option<f64> {
    match read_deadline(value)? {
        Deadline::Within(time) => Some(time.0),
        Deadline::At(_) => {
            value.report(
                ValueError::new("must be a duration from the trace's start, such as 5h")
                    .id(ErrorId::TimeFormat),
            );
            None
        }
    }
}
