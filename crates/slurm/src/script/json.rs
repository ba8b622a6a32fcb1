//! A reading as JSON: the schema `hsched.request/1`.

use serde_json::{Map, Value, json};

use super::request::{Exclusive, LineRemark, ResourceRequest, ScriptReading, ScriptRequest, TimeLimit};

/// Name and version of the schema.
const SCHEMA: &str = "hsched.request/1";

impl ScriptReading {
    /// Returns the reading as `hsched.request/1`.
    pub fn to_json(&self) -> Value {
        json!({
            "schema": SCHEMA,
            "request": self.request.as_ref().map(ScriptRequest::to_json),
            "refused": self.refused,
            "unknown": remarks(self.unknown.iter().chain(&self.site_names)),
            "notes": remarks(self.notes.iter()),
        })
    }
}

impl ScriptRequest {
    fn to_json(&self) -> Value {
        let mut fields = self.total.to_json();
        fields.insert("array_tasks".to_owned(), json!(self.array.map(|array| array.tasks)));
        fields.insert("array_limit".to_owned(), json!(self.array.and_then(|array| array.limit)));
        fields.insert("het".to_owned(), json!(self.components.len()));
        if !self.components.is_empty() {
            let components: Vec<Value> =
                self.components.iter().map(|resource_request| resource_request.to_json().into()).collect();
            fields.insert("components".to_owned(), components.into());
        }
        fields.into()
    }
}

impl ResourceRequest {
    fn to_json(&self) -> Map<String, Value> {
        let fields = [
            ("nodes_min", json!(self.nodes_min)),
            ("nodes_max", json!(self.nodes_max)),
            ("gpus_total", json!(self.gpus_total)),
            ("gpus_total_is_minimum", json!(self.gpus_total_is_minimum)),
            ("gpus_per_node", json!(self.gpus_per_node)),
            ("gpu_type", json!(self.gpu_type)),
            ("ntasks", json!(self.ntasks)),
            ("cpus_per_task", json!(self.cpus_per_task)),
            ("cpus_per_gpu", json!(self.cpus_per_gpu)),
            ("mem_mb_per_node", json!(self.mem_mb_per_node)),
            ("mem_mb_per_cpu", json!(self.mem_mb_per_cpu)),
            ("mem_mb_per_gpu", json!(self.mem_mb_per_gpu)),
            ("time_limit_s", self.time_limit.map_or(Value::Null, TimeLimit::to_json)),
            ("partition", json!(self.partition)),
            ("account", json!(self.account)),
            ("qos", json!(self.qos)),
            ("constraint", json!(self.constraint)),
            ("exclusive", self.exclusive.word().map_or(json!(false), Value::from)),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl TimeLimit {
    fn to_json(self) -> Value {
        match self {
            Self::Seconds(seconds) => json!(seconds),
            Self::Unlimited => json!("unlimited"),
        }
    }
}

impl Exclusive {
    /// Returns Slurm's word for the sharing of nodes; `None` for the usual one.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::No => None,
            Self::Nodes => Some("exclusive"),
            Self::User => Some("user"),
            Self::Mcs => Some("mcs"),
            Self::Topology => Some("topo"),
            Self::Oversubscribe => Some("oversubscribe"),
        }
    }
}

fn remarks<'a>(list: impl Iterator<Item = &'a LineRemark>) -> Vec<Value> {
    list.map(
        |line_remark| json!({"line": line_remark.line, "text": line_remark.text, "why": line_remark.why}),
    )
    .collect()
}
