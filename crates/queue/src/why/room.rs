//! The room for a pending job now, and the reservations that limit it.

use crate::forecast::QueueTable;
use crate::{PendingJob, RequestId, Reservation};
use hsched_model::{NodeName, Request};

/// The nodes for a pending job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PendingRoom {
    /// Nodes that the job could use if they were empty.
    pub possible: Vec<NodeName>,
    /// Nodes that have room now for what the job needs on each node.
    pub free: Vec<NodeName>,
    /// Number of nodes needed.
    pub needed: usize,
    /// The next reservation of nodes with room that begins before the end of the job's time limit.
    pub reserved: Option<Reservation>,
}

impl PendingRoom {
    /// Returns the room for a pending job in its first partition; `None` if no node can ever hold it, if a
    /// limit never allows it to start, or if other users' jobs are hidden.
    pub(super) fn of(pending: &PendingJob) -> Option<Self> {
        if pending.rest.others_hidden {
            return None;
        }
        let request = pending.request(RequestId(0));
        let partition =
            request.partition.as_deref().and_then(|names| names.split(',').next()).map(str::to_owned);
        let limit = request.limit.0;
        let table = QueueTable::placed(&pending.rest, &[Request { partition, ..request }], &[]);
        let (_, entry) = table.entries.first()?.as_ref()?;
        let model = &table.model;
        let shape = &model.shapes[entry.shape];
        let mut free = model.total.clone();
        for (node, amounts) in model.parts.iter().flat_map(|part| &part.running).flat_map(|job| &job.holds) {
            for (resource, amount) in amounts.iter() {
                let left = &mut free[*node as usize][usize::from(*resource)];
                *left = left.saturating_sub(*amount);
            }
        }
        let mut nodes: Vec<u32> = model.nodes_of(entry.shape).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let name = |node: &u32| pending.rest.nodes[*node as usize].name.clone();
        let is_closed = |node: &u32| {
            model.closures[*node as usize].iter().any(|closure| {
                Some(closure.reservation) != shape.reservation
                    && closure.start <= model.now
                    && model.now < closure.end
            })
        };
        let has_room = |node: &u32| {
            let (free_here, total) = (&free[*node as usize], &model.total[*node as usize]);
            !is_closed(node) && shape.fits(free_here, model.gpu_types) && (!shape.whole || free_here == total)
        };
        let with_room: Vec<u32> = nodes.iter().copied().filter(has_room).collect();
        let closures = with_room.iter().flat_map(|node| &model.closures[*node as usize]);
        let next = closures
            .filter(|closure| Some(closure.reservation) != shape.reservation)
            .filter(|closure| model.now < closure.start && closure.start < model.now + limit)
            .min_by(|a, b| a.start.total_cmp(&b.start));
        Some(Self {
            possible: nodes.iter().map(name).collect(),
            free: with_room.iter().map(name).collect(),
            needed: usize::try_from(shape.nodes).unwrap_or(usize::MAX),
            reserved: next.map(|closure| pending.rest.reservations[closure.reservation].clone()),
        })
    }

    /// Returns whether the job would fit now.
    pub(super) fn is_there(&self) -> bool {
        self.free.len() >= self.needed
    }
}
