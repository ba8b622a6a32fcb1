//! Ids of array tasks, and the ids of pending tasks that represent them.

/// Returns whether an id printed by Slurm (`9_[1-4,7%2]`, `9_3`) is or includes a task (`9_3`).
///
/// If Slurm has truncated a long list of tasks, the omitted ones count as included.
pub(crate) fn stands_for(shown: &str, task: &str) -> bool {
    if shown == task {
        return true;
    }
    let Some((array, number)) = task.split_once('_') else { return false };
    let (Some((shown_array, list)), Ok(number)) = (shown.split_once("_["), number.parse::<u32>()) else {
        return false;
    };
    let list = list.trim_end_matches(']').split('%').next().unwrap_or_default();
    shown_array == array && list.split(',').any(|part| holds(part, number))
}

/// Returns whether a part of a task list (`3`, `5-9`, `1-9:2`, `...`) includes a task.
fn holds(part: &str, task: u32) -> bool {
    let (range, step) = part.split_once(':').unwrap_or((part, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<u32>(), last.parse::<u32>(), step.parse::<u32>()) {
        (Ok(first), Ok(last), Ok(step)) => {
            (first..=last).contains(&task) && (task - first).is_multiple_of(step.max(1))
        }
        _ => part.contains("..."),
    }
}

#[cfg(test)]
mod tests {
    use super::stands_for;

    #[test]
    fn a_list_of_tasks_stands_for_each_of_them() {
        let check = |shown: &str, task: &str, is_so: bool| {
            assert_eq!(stands_for(shown, task), is_so, "{shown} {task}");
        };
        check("108_[10-20%4]", "108_15", true);
        check("108_[10-20%4]", "108_99", false);
        check("108_[1-9:4,12]", "108_5", true);
        check("108_[1-9:4,12]", "108_6", false);
        check("108_[1-9:4,12]", "108_12", true);
        check("108_[1,3,...]", "108_99", true);
        check("108_[0x2A]", "108_42", false);
        check("10_[1-9]", "108_5", false);
        check("49", "49_1", false);
        check("49_1", "49_1", true);
    }
}
