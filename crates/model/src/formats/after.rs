//! `after` of a file's jobs: the name of a job with a sweep stands for all its variants, and no job may wait
//! for itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::problem::ValueError;
use super::reader::{ReaderValue, all};
use crate::{ErrorId, Job, JobName};

/// Reads the names of a job's predecessors: one, or a list.
pub(super) fn read(value: &ReaderValue<'_>) -> Option<Vec<JobName>> {
    let name = |item: &ReaderValue<'_>| {
        item.parsed(|text| {
            JobName::new(text).map_err(|error| ValueError::new(error.to_string()).id(ErrorId::NameFormat))
        })
    };
    if value.is_list() { all(value.items().iter().map(name)) } else { Some(vec![name(value)?]) }
}

/// Returns the jobs of a file, and reports jobs that wait for themselves; each entry has its expanded jobs.
/// Names that are not in the file are kept, because they may refer to jobs added earlier.
pub(super) fn settled(mut entries: Vec<(ReaderValue<'_>, Vec<Job>)>) -> Vec<Job> {
    let variants: BTreeMap<JobName, Vec<JobName>> = entries
        .iter()
        .filter_map(|(entry, jobs)| {
            let base = JobName::new(field(entry, "name")?.text()?).ok()?;
            Some((base, jobs.iter().map(|job| job.name.clone()).collect()))
        })
        .collect();
    for job in entries.iter_mut().flat_map(|(_, jobs)| jobs) {
        let named = |name: &JobName| variants.get(name).cloned().unwrap_or_else(|| vec![name.clone()]);
        job.after = job.after.iter().flat_map(named).collect();
    }
    let by_name: BTreeMap<&JobName, &Job> =
        entries.iter().flat_map(|(_, jobs)| jobs).map(|job| (&job.name, job)).collect();
    let free = can_start(entries.iter().flat_map(|(_, jobs)| jobs));
    for (entry, jobs) in &entries {
        let stuck = jobs.iter().filter(|job| !free.contains(&job.name));
        let found = { stuck }.find_map(|job| Some((job, cycle(job, &by_name)?)));
        if let Some(((job, cycle), value)) = found.zip(field(entry, "after")) {
            let way = if cycle.len() > 2 { format!(" ({})", cycle.join(" after ")) } else { String::new() };
            value.report(
                ValueError::new(format!("{} waits for itself{way}", job.name)).id(ErrorId::DependencyCycle),
            );
        }
    }
    entries.into_iter().flat_map(|(_, jobs)| jobs).collect()
}

/// Returns the names on the shortest way from a job back to itself, such as `c b a c`; `None` if there is none,
/// because the job only waits for others that wait for themselves.
fn cycle<'a>(job: &'a Job, jobs: &BTreeMap<&'a JobName, &'a Job>) -> Option<Vec<&'a str>> {
    // The job through which each name was found.
    let mut before: BTreeMap<&JobName, &JobName> = BTreeMap::new();
    let mut next = VecDeque::from([job]);
    while let Some(job) = next.pop_front() {
        for name in &job.after {
            if before.contains_key(name) {
                continue;
            }
            before.insert(name, &job.name);
            next.extend(jobs.get(name));
        }
    }
    let mut names = vec![job.name.as_str()];
    let mut last = *before.get(&job.name)?;
    while *last != job.name {
        names.push(last.as_str());
        last = before.get(last)?;
    }
    names.push(job.name.as_str());
    names.reverse();
    Some(names)
}

/// Returns the jobs that can start eventually: those without predecessors, then those whose predecessors are
/// among these.
fn can_start<'a>(jobs: impl Iterator<Item = &'a Job>) -> BTreeSet<JobName> {
    let mut rest: BTreeMap<&JobName, &[JobName]> = jobs.map(|job| (&job.name, &job.after[..])).collect();
    let mut free = BTreeSet::new();
    loop {
        let waits = |before: &&[JobName]| before.iter().any(|name| rest.contains_key(name));
        let next: Vec<&JobName> =
            rest.iter().filter(|(_, before)| !waits(before)).map(|(name, _)| *name).collect();
        if next.is_empty() {
            return free;
        }
        for name in next {
            rest.remove(name);
            free.insert(name.clone());
        }
    }
}

/// Returns the value of a key of a job, even if other keys are invalid.
fn field<'a>(entry: &ReaderValue<'a>, key: &str) -> Option<ReaderValue<'a>> {
    entry.entries_quietly().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::JobName;
    use crate::formats::jobs::parse;

    const LEAST: &str =
        "samples_per_epoch: 1000, epochs: 2, global_batch: 300, model_size: 1MB, command: run";

    fn after(entries: &[&str]) -> String {
        let entries: Vec<String> = entries.iter().map(|entry| format!("- {{{LEAST}, {entry}}}\n")).collect();
        match parse(&format!("jobs:\n{}", entries.concat())) {
            Err(problems) => problems.to_string(),
            Ok(jobs) => {
                let one = |job: &crate::Job| {
                    let after: Vec<&str> = job.after.iter().map(JobName::as_str).collect();
                    format!("{}: {}", job.name, after.join(" "))
                };
                jobs.iter().map(one).collect::<Vec<_>>().join("; ")
            }
        }
    }

    #[test]
    fn one_name_or_a_list_of_this_file_or_of_jobs_added_before() {
        assert_eq!(
            after(&["name: a", "name: b, after: a", "name: c, after: [b, old]"]),
            "a: ; b: a; c: b old"
        );
    }

    #[test]
    fn a_job_with_a_sweep_stands_for_its_variants() {
        let entries = ["name: a, sweep: {lr: [1, 2]}", "name: b, after: a", "name: c, after: a-lr2"];
        assert_eq!(after(&entries), "a-lr1: ; a-lr2: ; b: a-lr1 a-lr2; c: a-lr2");
    }

    #[test]
    fn no_job_waits_for_itself() {
        assert_snapshot!(after(&["name: a, after: a"]), @"line 2: jobs[0].after: a waits for itself");
        assert_snapshot!(after(&["name: a, after: [c]", "name: b, after: a", "name: c, after: b", "name: d"]), @r"
        line 2: jobs[0].after: a waits for itself (a after c after b after a)
        line 3: jobs[1].after: b waits for itself (b after a after c after b)
        line 4: jobs[2].after: c waits for itself (c after b after a after c)
        ");
        // The last two wait only for jobs that wait for themselves.
        assert_snapshot!(after(&["name: a, after: a", "name: b, after: a", "name: c, after: [b, d]", "name: d"]), @"line 2: jobs[0].after: a waits for itself");
        assert_snapshot!(after(&["name: a, after: ['x y']", "name: b, after: 3"]), @r#"line 2: jobs[0].after[0]: job name "x y" contains ' '; only letters, digits, '-', '_' and '.' are allowed"#);
    }
}
