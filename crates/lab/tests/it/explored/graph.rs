//! Breadth-first search through all moments: finds errors, and moments from which the end is unreachable.

use std::collections::BTreeMap;

use hsched_plan::Policy;

use super::moment::{ExplorerRules, Moment};

/// All reachable moments.
#[derive(Debug, Default)]
pub struct Graph {
    numbers: BTreeMap<Box<str>, u32>,
    /// By moment: its predecessor and the event.
    before: Vec<(u32, Box<str>)>,
    /// By moment: its successors, and whether a fault leads to them.
    next: Vec<Vec<(u32, bool)>>,
    /// The moments in which all jobs are over.
    over: Vec<u32>,
    /// Number of moments that were reached again and compared with the equivalent one.
    pub compared: usize,
}

/// One in this many moments that are reached again is compared.
const COMPARED: usize = 16;

impl Graph {
    /// Explores everything that can follow from a moment.
    ///
    /// # Errors
    /// The error with all events up to it.
    pub fn explore(first: Moment, rules: &ExplorerRules, policy: &mut dyn Policy) -> Result<Self, String> {
        let mut graph = Self::default();
        graph.number(&first, (0, "added"));
        let (mut layer, mut twins, mut again) = (vec![(0, first)], Vec::new(), 0);
        while !layer.is_empty() {
            let mut following = Vec::new();
            let mut new_twins = Vec::new();
            for (number, moment) in layer {
                for next in moment.next(rules, policy) {
                    let known = graph.before.len();
                    let then = graph.number(&next.moment, (number, &next.what));
                    graph.next[at(number)].push((then, next.is_fault));
                    if at(then) == known {
                        if let Some(wrong) = next.moment.wrong(rules) {
                            return Err(graph.story(then, &wrong));
                        }
                        following.push((then, next.moment));
                    } else {
                        again += 1;
                        if again % COMPARED == 0 {
                            new_twins.push((then, next.moment));
                        }
                    }
                }
                let next = &mut graph.next[at(number)];
                next.sort_unstable();
                next.dedup();
            }
            // Results for a moment are used for all equivalent moments, so their successors must be the same.
            for (number, twin) in std::mem::replace(&mut twins, new_twins) {
                graph.compare(number, &twin, rules, policy);
            }
            layer = following;
        }
        for (number, twin) in twins {
            graph.compare(number, &twin, rules, policy);
        }
        match graph.endless() {
            Some(number) => Err(graph.story(number, "the jobs can never end")),
            None => Ok(graph),
        }
    }

    /// Returns the number of moments.
    pub fn len(&self) -> usize {
        self.before.len()
    }

    /// Returns the number of transitions.
    pub fn ways(&self) -> usize {
        self.next.iter().map(Vec::len).sum()
    }

    /// Returns whether an event with these words leads to any moment.
    pub fn passes(&self, words: &str) -> bool {
        self.before.iter().any(|(_, what)| what.contains(words))
    }

    /// Returns the number of a moment, which is assigned if it is new.
    fn number(&mut self, moment: &Moment, (before, what): (u32, &str)) -> u32 {
        let new = u32::try_from(self.before.len()).expect("fewer moments");
        let number = *self.numbers.entry(moment.words().into()).or_insert(new);
        if number == new {
            self.before.push((before, what.into()));
            self.next.push(Vec::new());
            if moment.is_over() {
                self.over.push(new);
            }
        }
        number
    }

    /// Checks that a moment has the same successors as the equivalent one with its number.
    fn compare(&mut self, number: u32, twin: &Moment, rules: &ExplorerRules, policy: &mut dyn Policy) {
        let into_iter = twin.next(rules, policy).into_iter();
        let mut futures: Vec<(Option<&u32>, bool)> =
            into_iter.map(|next| (self.numbers.get(next.moment.words().as_str()), next.is_fault)).collect();
        futures.sort_unstable();
        futures.dedup();
        let known: Vec<(Option<&u32>, bool)> =
            self.next[at(number)].iter().map(|(next, is_fault)| (Some(next), *is_fault)).collect();
        assert_eq!(futures, known, "equal words, another future: {}", self.story(number, &twin.words()));
        self.compared += 1;
    }

    /// Returns the first moment from which no path without faults leads to the end.
    fn endless(&self) -> Option<u32> {
        let mut ways = vec![Vec::new(); self.len()];
        for (from, next) in (0_u32..).zip(&self.next) {
            for (to, _) in next.iter().filter(|(_, is_fault)| !is_fault) {
                ways[at(*to)].push(from);
            }
        }
        let mut ends = vec![false; self.len()];
        let mut open = self.over.clone();
        while let Some(number) = open.pop() {
            if !std::mem::replace(&mut ends[at(number)], true) {
                open.append(&mut ways[at(number)]);
            }
        }
        (0..).zip(ends).find(|(_, ends)| !ends).map(|(number, _)| number)
    }

    /// Returns all events up to a moment, one per line, and the error.
    fn story(&self, mut number: u32, wrong: &str) -> String {
        let mut lines = vec![wrong];
        while number > 0 {
            let (before, what) = &self.before[at(number)];
            lines.push(what);
            number = *before;
        }
        lines.reverse();
        lines.join("\n")
    }
}

fn at(number: u32) -> usize {
    usize::try_from(number).expect("a place")
}
