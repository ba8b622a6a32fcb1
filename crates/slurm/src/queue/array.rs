//! The tasks of a job array in the id that Slurm prints: `11_[2-5,9%2]`.

/// The content of an array's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobArray {
    /// The array's own id.
    pub id: String,
    /// Number of tasks that the id represents, at least 1; tasks that Slurm omits from a long list are not
    /// counted.
    pub tasks: u32,
    /// Maximum number of the array's tasks that run at the same time.
    pub at_once: Option<u32>,
}

/// Parses a printed id; `None` for a job that is not an array.
pub(crate) fn array(shown_id: &str) -> Option<JobArray> {
    let (id, tasks) = shown_id.split_once('_')?;
    let Some(list) = tasks.strip_prefix('[') else {
        return Some(JobArray { id: id.to_owned(), tasks: 1, at_once: None });
    };
    let list = list.strip_suffix(']').unwrap_or(list);
    let (list, at_once) = list.split_once('%').map_or((list, None), |(list, most)| (list, most.parse().ok()));
    let tasks = list.split(',').map(count).fold(0, u32::saturating_add);
    Some(JobArray { id: id.to_owned(), tasks: tasks.max(1), at_once })
}

/// Returns the number of tasks in `7`, `2-5` or `0-10:5`; 0 if it cannot be read.
fn count(part: &str) -> u32 {
    let (range, step) = part.split_once(':').unwrap_or((part, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| text.trim().parse::<u32>().ok();
    match (number(first), number(last), number(step)) {
        (Some(first), Some(last), Some(step)) if first <= last && step > 0 => {
            ((last - first) / step).saturating_add(1)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_counted_up_to_what_is_shown() {
        let check = |shown: &str, expected: Option<(&str, u32, Option<u32>)>| {
            let found = array(shown);
            let found =
                found.as_ref().map(|job_array| (job_array.id.as_str(), job_array.tasks, job_array.at_once));
            assert_eq!(found, expected, "{shown}");
        };
        check("12", None);
        check("9+1", None);
        check("11_3", Some(("11", 1, None)));
        check("11_[4]", Some(("11", 1, None)));
        check("11_[2-5%2]", Some(("11", 4, Some(2))));
        check("11_[1,3,5-9,20%1]", Some(("11", 8, Some(1))));
        check("11_[0-10:5]", Some(("11", 3, None)));
        check("11_[1-3,5,...", Some(("11", 4, None)));
        check("11_[x%y]", Some(("11", 1, None)));
        check("11_[0-4294967295]", Some(("11", u32::MAX, None)));
    }
}
