//! The nodes of the simulated cluster: failures and returns, used and free GPUs.

use super::SimulatedWorld;
use crate::simulate::fit::FreeNode;
use crate::simulate::incident::NodeChange;
use crate::simulate::submission::SimulatedSubmission;
use hsched_engine::{End, Gpus};
use hsched_model::{Availability, Node, NodeName};

impl SimulatedWorld {
    pub(super) fn change_nodes(&mut self) {
        for change in self.script.due(self.now) {
            match change {
                NodeChange::Dies(node) => {
                    for running in self.submissions.iter_mut().filter_map(SimulatedSubmission::running_mut) {
                        running.hangs |= running.gpus.0.contains_key(&node);
                    }
                    self.dead.insert(node.clone());
                    self.script.at(self.now.after(self.site.delays.node_down), NodeChange::Noticed(node));
                }
                NodeChange::Noticed(node) => self.notice(&node),
                NodeChange::Returns(node) => {
                    self.notice(&node);
                    self.dead.remove(&node);
                    self.down.remove(&node);
                    self.look_soon();
                }
            }
        }
    }

    /// Removes a dead node; jobs with GPUs on it end at once as a whole.
    fn notice(&mut self, node: &NodeName) {
        if !self.dead.contains(node) || !self.down.insert(node.clone()) {
            return;
        }
        for submission in &mut self.submissions {
            if submission.running().is_some_and(|running| running.gpus.0.contains_key(node)) {
                submission.end(End::NodeFailed, self.now);
            }
        }
        self.look_soon();
    }

    pub(super) fn held(&self) -> impl Iterator<Item = &Gpus> {
        self.submissions.iter().filter_map(|submission| submission.running().map(|running| &running.gpus))
    }

    pub(super) fn free(&self) -> Vec<FreeNode> {
        let cluster = self.cluster();
        let up = cluster.nodes.iter().filter(|node| node.state.availability() == Availability::Up);
        let free = |node: &Node| FreeNode {
            name: node.name.clone(),
            mixed: node.gpus.len() > 1,
            gpus: node.gpus.iter().map(|stock| (stock.gpu_type.clone(), stock.free())).collect(),
        };
        up.map(free).collect()
    }
}
