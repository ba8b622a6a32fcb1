//! All reachable moments, and whether the end can be reached from each without another fault.

use std::collections::{HashMap, VecDeque};

use crate::pool::model::{Moment, Setting};

/// The result of an exploration.
pub(super) struct Exploration {
    pub(super) states: usize,
    pub(super) wrong: Option<String>,
}

/// Explores all successors breadth first.
pub(super) fn explore(setting: Setting) -> Exploration {
    let first = Moment::first(setting);
    let mut numbers: HashMap<String, usize> = [(first.words(), 0)].into();
    let mut queue = VecDeque::from([(0, first)]);
    // By moment: the predecessors from which it is reached without a fault.
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut ends: Vec<usize> = Vec::new();
    let mut stories: Vec<(usize, String)> = vec![(0, "start".to_owned())];
    while let Some((number, moment)) = queue.pop_front() {
        if let Some(wrong) = &moment.wrong {
            return Exploration { states: numbers.len(), wrong: Some(story(&stories, number, wrong)) };
        }
        if moment.is_done() || moment.is_handed_on() {
            ends.push(number);
            continue;
        }
        for (is_calm, what, next) in moment.next() {
            let words = next.words();
            let count = numbers.len();
            let place = *numbers.entry(words).or_insert(count);
            if place == count {
                before.push(Vec::new());
                stories.push((number, what));
                queue.push_back((place, next));
            }
            if is_calm {
                before[place].push(number);
            }
        }
    }
    let mut can_end = vec![false; numbers.len()];
    let mut open = ends;
    while let Some(number) = open.pop() {
        if !std::mem::replace(&mut can_end[number], true) {
            open.extend(&before[number]);
        }
    }
    let stuck = can_end.iter().position(|can_end| !can_end);
    let wrong = stuck.map(|number| story(&stories, number, "never ends: a job is abandoned"));
    Exploration { states: numbers.len(), wrong }
}

/// Returns the events that led to a moment, and its error.
fn story(stories: &[(usize, String)], mut number: usize, wrong: &str) -> String {
    let mut lines = vec![wrong.to_owned()];
    while number > 0 {
        let (from, what) = &stories[number];
        lines.push(what.clone());
        number = *from;
    }
    lines.reverse();
    lines.join("\n")
}
