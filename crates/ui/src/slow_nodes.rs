//! Slow nodes as text and as JSON.

use serde_json::{Value, json};

use crate::quantity::{duration, moment, percent};
use hsched_engine::SlowNode;
use hsched_model::Time;

/// Returns a line for each slow node.
pub fn slow_lines(slow: &[SlowNode], now: Time) -> Vec<String> {
    let line = |slow: &SlowNode| {
        let SlowNode { node, gpu_type, model, .. } = slow;
        format!(
            "slow node {node}: ranks of {model} take {} longer than on other nodes with {gpu_type}, seen for {}; jobs with avoid_slow \
             avoid it until {}",
            percent(slow.slower),
            duration(now.since(slow.since)),
            moment(slow.until, now)
        )
    };
    slow.iter().map(line).collect()
}

/// Returns the message about a new slow node.
pub fn slow_note(slow: &SlowNode) -> String {
    let SlowNode { node, gpu_type, model, .. } = slow;
    format!(
        "node {node} is slow: three times in a row, ranks of {model} took at least 15 % longer than on other nodes with \
         {gpu_type}; avoid_slow: true keeps a job off such nodes"
    )
}

/// Returns the slow nodes as JSON; times are Unix seconds.
pub(super) fn slow_json(slow: &[SlowNode]) -> Value {
    let one = |slow: &SlowNode| {
        json!({
            "node": slow.node.as_str(), "type": slow.gpu_type.as_str(), "model": slow.model, "slower": slow.slower,
            "since": slow.since.0, "until": slow.until.0,
        })
    };
    slow.iter().map(one).collect()
}
