//! The GPUs of a cluster as cells: all GPUs of one type on one node.

use hsched_plan::Problem;

/// GPUs of one type on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub node: usize,
    pub gpu_type: usize,
    pub count: u32,
}

/// All cells ordered by node and then by type, and the links between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    pub list: Vec<Cell>,
    /// Bytes per second inside each node, and between nodes.
    inside: Vec<f64>,
    network: f64,
    /// Whether a node has GPUs of several types.
    pub is_mixed: bool,
}

/// GPUs of some cells: cell number and count, ordered by cell.
pub(super) type CellParts = Vec<(usize, u32)>;

impl Cells {
    /// Returns the cells of GPUs by node and type.
    pub(super) fn new(problem: &Problem, sizes: &[Vec<u32>]) -> Self {
        let inside = problem.nodes.iter().map(|node| node.intra_node.bytes_per_second()).collect();
        Self::of(sizes, inside, problem.network.bytes_per_second())
    }

    /// Returns the cells of GPUs by node and type, with the rates inside each node and between nodes in bytes
    /// per second.
    pub(super) fn of(sizes: &[Vec<u32>], inside: Vec<f64>, network: f64) -> Self {
        let of_node = |(node, gpus): (usize, &Vec<u32>)| {
            let present = gpus.iter().enumerate().filter(|(_, count)| **count > 0);
            present.map(|(gpu_type, &count)| Cell { node, gpu_type, count }).collect::<Vec<_>>()
        };
        let list: Vec<Cell> = sizes.iter().enumerate().flat_map(of_node).collect();
        let is_mixed = list.windows(2).any(|candidate| candidate[0].node == candidate[1].node);
        Self { list, inside, network, is_mixed }
    }

    /// Returns the number of all GPUs.
    pub(super) fn total(&self) -> u32 {
        self.list.iter().map(|cell| cell.count).sum()
    }

    /// Returns the number of nodes with the given GPUs.
    pub(super) fn nodes(&self, parts: &[(usize, u32)]) -> usize {
        let nodes = parts.iter().map(|(cell, _)| self.list[*cell].node);
        let (mut count, mut last) = (0, usize::MAX);
        for node in nodes {
            count += usize::from(node != last);
            last = node;
        }
        count
    }

    /// Returns the rate of the slowest link of a ring over some GPUs, in bytes per second.
    pub(super) fn ring(&self, parts: &[(usize, u32)]) -> f64 {
        let mut rate = if self.nodes(parts) > 1 { self.network } else { f64::INFINITY };
        let mut rest = parts;
        while let Some(&(first, _)) = rest.first() {
            let node = self.list[first].node;
            let on_node = rest.iter().take_while(|(cell, _)| self.list[*cell].node == node).count();
            if rest[..on_node].iter().map(|(_, count)| count).sum::<u32>() >= 2 {
                rate = rate.min(self.inside[node]);
            }
            rest = &rest[on_node..];
        }
        rate
    }
}
