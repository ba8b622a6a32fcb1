//! Invented queues of any size, for measuring the speed of the model.

use hsched_model::{GpuType, Seconds};
use hsched_queue::{Asks, FurtherOptions, GpuAsk, Request, RequestId, Snapshot};
use serde_json::{Value, json};

/// A sequence of numbers from [0, 1).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
    pub fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn choose<T: Copy>(&mut self, list: &[T]) -> T {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a place in a short list"
        )]
        let place = (self.unit() * list.len() as f64) as usize;
        list[place]
    }
}

const TYPES: [&str; 3] = ["a100", "v100", "t4"];
/// Nodes of a request, and GPUs on each.
const SHAPES: [(u32, u32); 8] = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4), (4, 4)];
const NOW: f64 = 1_800_000_000.0;

/// Returns a full cluster with this many nodes of 4 GPUs each, and this many pending jobs.
pub fn snapshot(nodes: usize, waiting: usize, seed: u64) -> Snapshot {
    let mut random = Random::new(seed);
    let gpu_type = |node: usize| TYPES[node % 3];
    let list: Vec<Value> = (0..nodes)
        .map(|node| {
            json!({ "name": format!("n{node}"), "partitions": ["gpu"], "cpus": 64,
            "gpus": [{ "type": gpu_type(node), "count": 4 }] })
        })
        .collect();
    let mut jobs = Vec::new();
    for node in 0..nodes {
        let mut left = 4;
        while left > 0 {
            let count = random.choose(&[1, 1, 2, 4]).min(left);
            left -= count;
            let limit = random.choose(&[3600.0, 10_800.0, 43_200.0, 86_400.0]);
            let since = NOW - limit * random.unit() * 0.9;
            let holds = json!([{ "node": format!("n{node}"), "cpus": 2 * count,
                "gpus": [{ "type": gpu_type(node), "count": count }] }]);
            jobs.push(
                json!({ "id": format!("r{node}_{left}"), "partitions": ["gpu"], "limit_s": limit, "asks": {},
                "user": random.choose(&["ann", "bob", "eve"]), "submitted": since - 1000.0,
                "running": { "since": since, "holds": holds } }),
            );
        }
    }
    for number in 0..waiting {
        let (asks, limit) = asks(&mut random);
        jobs.push(json!({ "id": number.to_string(), "partitions": ["gpu"], "asks": asks, "limit_s": limit,
            "user": random.choose(&["ann", "bob", "eve"]), "submitted": NOW - random.unit() * 86_400.0,
            "priority": random.choose(&[1000, 1300, 1600, 2000]) }));
    }
    let history: Vec<Value> = (0..nodes * 75)
        .map(|_| {
            let (asks, limit) = asks(&mut random);
            let submitted = NOW - 6.9 * 86_400.0 * random.unit();
            let started = submitted + 3600.0 * random.unit();
            json!({ "partition": "gpu", "asks": asks, "limit_s": limit, "submitted": submitted, "started": started,
                "user": random.choose(&["ann", "bob", "eve"]),
                "ended": started + limit * random.unit() })
        })
        .collect();
    let text = json!({ "schema": "hsched.queue/1", "taken_at": NOW, "nodes": list, "jobs": jobs, "history": history,
        "partitions": [{ "name": "gpu", "default": true, "max_time_s": 604_800 }], "shares": shares(),
        "accounts": [{ "name": "own", "default": true, "priority": 1500 }] });
    Snapshot::parse(&text.to_string()).expect("a snapshot")
}

/// Returns a hundred users of ten accounts, of whom three submit.
fn shares() -> Value {
    let mut branches = Vec::new();
    for account in 0..10 {
        let above = branches.len();
        branches.push(json!({ "account": format!("a{account}"), "shares": 10, "usage": 3e8 }));
        for user in 0..10 {
            let name = match (account, user) {
                (0, 0) => "ann".to_owned(),
                (1, 0) => "bob".to_owned(),
                (2, 0) => "eve".to_owned(),
                _ => format!("u{account}_{user}"),
            };
            let usage = 3e7 + 1e5 * f64::from(account) + 1e4 * f64::from(user);
            branches
                .push(json!({ "account": format!("a{account}"), "user": name, "parent": above, "shares": 1,
                "usage": usage, "ours": name == "u3_1" }));
        }
    }
    json!({ "weight": 500, "half_life_s": 604_800, "branches": branches })
}

fn asks(random: &mut Random) -> (Value, f64) {
    let gpu_type = random.choose(&TYPES);
    let (nodes, count) = random.choose(&[(1, 1), (1, 1), (1, 1), (1, 2), (1, 2), (1, 4), (1, 4), (2, 4)]);
    let limit = random.choose(&[3600.0, 10_800.0, 43_200.0, 86_400.0]);
    (json!({ "nodes": nodes, "cpus": 2 * count, "gpus": [{ "type": gpu_type, "count": count }] }), limit)
}

/// Returns 24 requests for the same work: each type on 1 to 16 GPUs.
pub fn requests() -> Vec<Request> {
    let mut list = Vec::new();
    for (gpu_type, speed) in [("a100", 1.0), ("v100", 0.6), ("t4", 0.25)] {
        for (nodes, count) in SHAPES {
            let run = 8.0 * 3600.0 / (speed * f64::from(nodes * count));
            let gpus = vec![GpuAsk { gpu_type: GpuType::new(gpu_type), count }];
            list.push(Request {
                id: RequestId(u32::try_from(list.len()).expect("few")),
                asks: Asks { nodes, gpus, cpus: Some(2 * u64::from(count)), ..Asks::default() },
                partition: Some("gpu".to_owned()),
                account: Some("own".to_owned()),
                limit: Seconds(run * 1.1),
                run: Seconds(run),
                further: FurtherOptions::default(),
            });
        }
    }
    list
}
