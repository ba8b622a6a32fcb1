//! Grows one tree, the most useful split first, and traverses it.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::hazard_trees::{STEPS, Sums, TrainingRows};
use hsched_model::number::{to_f64, to_u32, to_usize};

/// Maximum number of codes of a feature.
pub(crate) const CODES: usize = 64;

/// Maximum number of leaves of a tree, and minimum number of lines in a leaf.
const LEAVES: usize = 63;
const LINES: f64 = 40.0;

/// Added to second derivatives, so that leaves with few lines have small values.
const RIDGE: f64 = 5.0;

/// A node: a test with the nodes for both results, or a value.
#[derive(Clone, Copy, Debug)]
enum TreeNode {
    /// Whether the code of a feature is at most `code`.
    Feature {
        feature: u32,
        code: u8,
        children: [u32; 2],
    },
    /// Whether the bin of the wait is before `step`.
    Step {
        step: u8,
        children: [u32; 2],
    },
    Leaf(f32),
}

/// A tree; its first node is the root.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: Vec<TreeNode>,
}

impl Tree {
    /// Calls `found` with each range of bins before `steps` and its value, for the row with the codes of
    /// `code_of`.
    pub(crate) fn visit(
        &self,
        code_of: impl Fn(usize) -> u8,
        steps: usize,
        mut found: impl FnMut(usize, usize, f32),
    ) {
        let mut open = [(0_u32, 0_usize, 0_usize); STEPS + 1];
        open[0] = (0, 0, steps);
        let mut count = 1;
        while count > 0 {
            count -= 1;
            let (mut node, mut from, until) = open[count];
            if from >= until {
                continue;
            }
            loop {
                match self.nodes[node as usize] {
                    TreeNode::Leaf(value) => {
                        found(from, until, value);
                        break;
                    }
                    TreeNode::Feature { feature, code, children } => {
                        node = children[usize::from(code_of(feature as usize) > code)];
                    }
                    TreeNode::Step { step, children } => {
                        let step = usize::from(step);
                        if until <= step {
                            node = children[0];
                        } else if from >= step {
                            node = children[1];
                        } else {
                            open[count] = (children[0], from, step);
                            count += 1;
                            node = children[1];
                            from = step;
                        }
                    }
                }
            }
            // The deferred range is next.
        }
    }
}

/// First and second derivatives, and the number of lines.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    first: f64,
    second: f64,
    lines: f64,
}

impl Total {
    fn add(&mut self, other: &Self) {
        self.first += other.first;
        self.second += other.second;
        self.lines += other.lines;
    }

    fn without(&self, other: &Self) -> Self {
        Self {
            first: self.first - other.first,
            second: self.second - other.second,
            lines: self.lines - other.lines,
        }
    }

    fn score(&self) -> f64 {
        self.first * self.first / (self.second + RIDGE)
    }

    fn value(&self) -> f64 {
        -self.first / (self.second + RIDGE)
    }
}

/// The best split of a leaf.
#[derive(Clone, Copy, Debug)]
struct LeafSplit {
    gain: f64,
    /// Index in the list of the tree's features; the index after the last one means the bin.
    place: usize,
    code: u8,
}

/// A leaf that may become a node.
struct Leaf {
    node: usize,
    rows: Vec<u32>,
    /// Bins from the first (inclusive) to the second (exclusive).
    steps: [u8; 2],
    total: Total,
    /// By feature and code; the last part is by bin.
    histogram: Vec<Total>,
    split: Option<LeafSplit>,
}

/// The inputs of growing a tree.
pub(crate) struct Grower<'a> {
    pub rows: &'a TrainingRows,
    /// Prefix sums before each line of a row, and after its last.
    pub sums: &'a [Sums],
    /// First line of each row, not counting the additional entries of `sums`.
    pub offsets: &'a [u32],
}

impl Grower<'_> {
    pub(crate) fn grow(
        &self,
        is_seen: &[bool],
        features: &[usize],
        rate: f32,
        mut random: Option<&mut Pcg64Mcg>,
    ) -> Tree {
        let rows = (0_u32..).zip(is_seen).filter_map(|(row, is_seen)| is_seen.then_some(row)).collect();
        let steps = [0, u8::try_from(STEPS).unwrap_or(u8::MAX)];
        let mut nodes = vec![TreeNode::Leaf(0.0)];
        let mut root =
            Leaf { node: 0, rows, steps, total: Total::default(), histogram: Vec::new(), split: None };
        self.count(&mut root, features);
        root.split = best_split(&root, features.len(), random.as_deref_mut());
        let mut leaves = vec![root];
        while leaves.len() < LEAVES {
            let gain = |leaf: &Leaf| leaf.split.map_or(0.0, |split| split.gain);
            let best = (0..leaves.len()).max_by(|a, b| gain(&leaves[*a]).total_cmp(&gain(&leaves[*b])));
            let Some((place, split)) = best.and_then(|place| Some((place, leaves[place].split?))) else {
                break;
            };
            let leaf = leaves.swap_remove(place);
            let children = self.divide(leaf, split, features, &mut nodes);
            for mut child in children {
                child.split = best_split(&child, features.len(), random.as_deref_mut());
                leaves.push(child);
            }
        }
        for leaf in leaves {
            nodes[leaf.node] = TreeNode::Leaf(rate * narrow(leaf.total.value()));
        }
        Tree { nodes }
    }

    /// Returns the derivatives of a row over a range of bins.
    fn total(&self, row: u32, [from, until]: [u8; 2]) -> Total {
        let steps = self.rows.steps[row as usize];
        let (from, until) = (from.min(steps), until.min(steps));
        let begin = (self.offsets[row as usize] + row) as usize;
        let (before, after) = (self.sums[begin + usize::from(from)], self.sums[begin + usize::from(until)]);
        Total {
            first: f64::from(after[0] - before[0]),
            second: f64::from(after[1] - before[1]),
            lines: f64::from(until - from),
        }
    }

    /// Sums up the lines of a leaf: all, by feature and code, and by bin.
    fn count(&self, leaf: &mut Leaf, features: &[usize]) {
        let totals: Vec<Total> = leaf.rows.iter().map(|row| self.total(*row, leaf.steps)).collect();
        leaf.total = Total::default();
        for total in &totals {
            leaf.total.add(total);
        }
        let mut histogram = vec![Total::default(); (features.len() + 1) * CODES];
        for (feature, sums) in features.iter().zip(histogram.chunks_exact_mut(CODES)) {
            let codes = &self.rows.codes[*feature];
            for (row, total) in leaf.rows.iter().zip(&totals) {
                sums[usize::from(codes[*row as usize]) % CODES].add(total);
            }
        }
        let sums = &mut histogram[features.len() * CODES..];
        for row in &leaf.rows {
            let last = leaf.steps[1].min(self.rows.steps[*row as usize]);
            for step in leaf.steps[0]..last {
                sums[usize::from(step)].add(&self.total(*row, [step, step + 1]));
            }
        }
        leaf.histogram = histogram;
    }

    /// Turns a leaf into a node and returns its children.
    fn divide(
        &self,
        leaf: Leaf,
        split: LeafSplit,
        features: &[usize],
        nodes: &mut Vec<TreeNode>,
    ) -> [Leaf; 2] {
        let [left, right] = self.divided_rows(&leaf, split, features);
        let child_steps = match features.get(split.place) {
            Some(_) => [leaf.steps; 2],
            None => [[leaf.steps[0], split.code + 1], [split.code + 1, leaf.steps[1]]],
        };
        let first = to_u32(to_f64(nodes.len()));
        let children = [first, first + 1];
        nodes[leaf.node] = match features.get(split.place) {
            Some(&feature) => {
                TreeNode::Feature { feature: to_u32(to_f64(feature)), code: split.code, children }
            }
            None => TreeNode::Step { step: split.code + 1, children },
        };
        let child = |number: usize, rows: Vec<u32>| Leaf {
            node: children[number] as usize,
            rows,
            steps: child_steps[number],
            total: Total::default(),
            histogram: Vec::new(),
            split: None,
        };
        nodes.extend([TreeNode::Leaf(0.0); 2]);
        let mut children = [child(0, left), child(1, right)];
        let smaller = usize::from(children[1].rows.len() < children[0].rows.len());
        self.count(&mut children[smaller], features);
        let counted = &children[smaller];
        let (total, mut histogram) = (leaf.total.without(&counted.total), leaf.histogram);
        for (sum, part) in histogram.iter_mut().zip(&counted.histogram) {
            *sum = sum.without(part);
        }
        let other = &mut children[1 - smaller];
        (other.total, other.histogram) = (total, histogram);
        children
    }

    fn divided_rows(&self, leaf: &Leaf, split: LeafSplit, features: &[usize]) -> [Vec<u32>; 2] {
        let mut parts = [Vec::new(), Vec::new()];
        if let Some(feature) = features.get(split.place) {
            let codes = &self.rows.codes[*feature];
            for row in &leaf.rows {
                parts[usize::from(codes[*row as usize] > split.code)].push(*row);
            }
        } else {
            let goes_on = |row: &&u32| self.rows.steps[**row as usize] > split.code + 1;
            parts = [leaf.rows.clone(), leaf.rows.iter().filter(goes_on).copied().collect()];
        }
        parts
    }
}

/// Returns the split of a leaf with the largest gain; `None` if there is none. With `random`, each feature
/// has one random threshold.
fn best_split(leaf: &Leaf, features: usize, mut random: Option<&mut Pcg64Mcg>) -> Option<LeafSplit> {
    let mut best: Option<LeafSplit> = None;
    let whole = leaf.total.score();
    for (place, sums) in leaf.histogram.chunks_exact(CODES).enumerate() {
        let only = match &mut random {
            Some(random) if place < features => Some(drawn(sums, random)?),
            _ => None,
        };
        let mut left = Total::default();
        for (code, sum) in (0_u8..).zip(sums) {
            left.add(sum);
            if sum.lines < 0.5 || left.lines < LINES || only.is_some_and(|only| only != code) {
                continue;
            }
            let right = leaf.total.without(&left);
            if right.lines < LINES {
                break;
            }
            let gain = left.score() + right.score() - whole;
            if gain > best.map_or(1e-9, |best| best.gain) {
                best = Some(LeafSplit { gain, place, code });
            }
        }
    }
    best
}

/// Returns a random code that occurs in some lines.
fn drawn(sums: &[Total], random: &mut Pcg64Mcg) -> Option<u8> {
    let codes: Vec<u8> =
        (0_u8..).zip(sums).filter(|(_, sum)| sum.lines > 0.5).map(|(code, _)| code).collect();
    let place = to_usize(random.random::<f64>() * to_f64(codes.len()));
    codes.get(place).copied()
}

#[expect(clippy::cast_possible_truncation, reason = "values of leaves need no more digits")]
fn narrow(number: f64) -> f32 {
    number as f32
}
