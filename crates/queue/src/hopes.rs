//! The shapes that may still start in a pass; the pass ends when there are none.

use crate::node_timeline::{NodeTimeline, Viewer};
use crate::play::LineJob;
use crate::queue_model::QueueModel;

/// The shapes that may still start in a pass.
pub(super) struct StartableShapes {
    list: Vec<Hope>,
}

/// A shape that has room now, as seen by a pending job.
struct Hope {
    shape: usize,
    viewer: Viewer,
    /// The shortest limit among the shape's pending jobs, in seconds.
    limit: f64,
    /// Nodes that may have room for a job with this limit.
    nodes: Vec<u32>,
    needed: usize,
}

impl StartableShapes {
    /// Returns the pending shapes that have room on enough nodes now.
    pub(super) fn new(model: &QueueModel, timeline: &mut NodeTimeline, line: &[LineJob]) -> Self {
        let mut limits = vec![[f64::INFINITY; 2]; model.shapes.len()];
        for entry in line {
            let known = &mut limits[entry.shape][entry.viewer as usize];
            *known = known.min(entry.limit);
        }
        let mut list = Vec::new();
        for (shape, limits) in limits.into_iter().enumerate() {
            if limits == [f64::INFINITY; 2] {
                continue;
            }
            let wanted = &model.shapes[shape];
            let mut nodes: Vec<u32> = Vec::new();
            for &place in &wanted.places {
                let set = &model.sets[place];
                nodes.extend(set.iter().filter(|&&node| timeline.ready(shape, node) == f64::NEG_INFINITY));
            }
            nodes.sort_unstable();
            nodes.dedup();
            let needed = wanted.nodes as usize;
            if nodes.len() < needed {
                continue;
            }
            for (viewer, limit) in [Viewer::Member, Viewer::Guest].into_iter().zip(limits) {
                if limit.is_finite() {
                    list.push(Hope { shape, viewer, limit, nodes: nodes.clone(), needed });
                }
            }
        }
        Self { list }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the position of the last pending job with one of these shapes.
    pub(super) fn last_in_line(&self, line: &[LineJob]) -> Option<usize> {
        let most = self.list.iter().map(|hope| hope.shape).max()?;
        let mut is_hoped = vec![[false; 2]; most + 1];
        self.list.iter().for_each(|hope| is_hoped[hope.shape][hope.viewer as usize] = true);
        line.iter()
            .rposition(|entry| is_hoped.get(entry.shape).is_some_and(|known| known[entry.viewer as usize]))
    }

    /// Removes shapes without room after these nodes were allocated or reserved.
    pub(super) fn update(&mut self, timeline: &mut NodeTimeline, nodes: &[u32], now: f64) {
        for hope in &mut self.list {
            for node in nodes {
                // Binary search requires sorted nodes, which `new` ensures.
                if let Ok(place) = hope.nodes.binary_search(node)
                    && timeline.opening(hope.shape, *node, now, hope.limit, hope.viewer) > now
                {
                    hope.nodes.remove(place);
                }
            }
        }
        self.list.retain(|hope| hope.nodes.len() >= hope.needed);
    }
}
