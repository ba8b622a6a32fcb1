//! Parts of a cluster without common jobs, each simulated separately.

use crate::shape::Shape;

/// The part of each node and of each shape.
#[derive(Clone, Debug)]
pub(super) struct QueueParts {
    pub count: usize,
    pub of_node: Vec<usize>,
    pub of_shape: Vec<usize>,
}

impl QueueParts {
    /// Returns the parts; the shapes of each group in `coupled` are in one part.
    pub(super) fn new(shapes: &[Shape], sets: &[Vec<u32>], nodes: usize, coupled: &[Vec<usize>]) -> Self {
        let mut leader: Vec<usize> = (0..nodes).collect();
        let alone = (0..shapes.len()).map(|shape| vec![shape]);
        for group in alone.chain(coupled.iter().cloned()) {
            let places = group.iter().flat_map(|&shape| &shapes[shape].places);
            let mut nodes = places.flat_map(|&place| &sets[place]).map(|&node| node as usize);
            let Some(first) = nodes.next() else { continue };
            for node in nodes {
                let (a, b) = (find(&mut leader, first), find(&mut leader, node));
                leader[a.max(b)] = a.min(b);
            }
        }
        let leaders: Vec<usize> = (0..nodes).map(|node| find(&mut leader, node)).collect();
        let mut known: Vec<usize> = leaders.clone();
        known.sort_unstable();
        known.dedup();
        let number = |node: usize| known.partition_point(|leader| *leader < leaders[node]);
        let of_shape = |shape: &Shape| number(sets[shape.places[0]][0] as usize);
        Self {
            count: known.len(),
            of_node: (0..nodes).map(number).collect(),
            of_shape: shapes.iter().map(of_shape).collect(),
        }
    }

    /// Returns the GPUs of a part's nodes.
    pub(super) fn gpus(&self, part: usize, total: &[Vec<u64>], gpu_types: usize) -> u64 {
        let nodes = total.iter().zip(&self.of_node).filter(|(_, number)| **number == part);
        nodes.flat_map(|(total, _)| &total[..gpu_types]).sum()
    }
}

fn find(leader: &mut [usize], node: usize) -> usize {
    let mut top = node;
    while leader[top] != top {
        leader[top] = leader[leader[top]];
        top = leader[top];
    }
    top
}
