//! The explanation of a plan as JSON (schema `hsched.explain/1`).

use serde_json::{Value, json};

use crate::ExplainedPlan;
use hsched_plan::{Alternative, GpuCountEffect, JobExplanation, Obstacle, PlacementLimit, Verdict};

impl ExplainedPlan<'_> {
    /// Returns the prices and the full explanation of the selected jobs. Times and prices are in seconds:
    /// those of the market refer to the objective's sum, those of a job to its completion time.
    pub fn json(&self) -> Value {
        let types = self.problem.labels.iter().zip(&self.explanation.types);
        let types: Vec<Value> = types
            .map(|(gpu_type, market)| {
                let (offered, free, price) = (market.offered, market.free, market.price);
                let mut value =
                    json!({ "type": gpu_type.as_str(), "on_offer": offered, "free": free, "price_s": price });
                if !market.replica_prices.is_empty() {
                    value["replica_prices_s"] = json!(market.replica_prices);
                }
                value
            })
            .collect();
        let jobs: Vec<Value> = self.explanation.jobs.iter().map(|job| self.job_json(job)).collect();
        json!({
            "schema": "hsched.explain/1",
            "policy": self.policy,
            "objective": self.problem.objective.name(),
            "types": types,
            "jobs": jobs,
        })
    }

    fn job_json(&self, job: &JobExplanation) -> Value {
        let market = &self.explanation.types;
        let sources = &self.problem.jobs[job.job].sources;
        let verdict = &self.plan.verdicts()[job.job];
        let word = match verdict {
            Verdict::Place(_) => "place",
            Verdict::Defer { .. } => "defer",
            Verdict::Reject { .. } => "reject",
        };
        let of_type = |(ty, explanation): (usize, &hsched_plan::TypeExplanation)| {
            let alone = match &explanation.alone {
                Ok(alone) => self.alternative(job, alone),
                Err(obstacle) => not(obstacle),
            };
            let mut value = json!({
                "type": self.problem.labels[ty].as_str(),
                "speed_source": sources.iter().find(|(source, _)| *source == ty).map(|(_, source)| source.to_string()),
                "has": job.counts[ty],
                "price_s": job.price(market, ty, 1),
                "pays_s": job.price(market, ty, job.counts[ty]),
                "one_more": explanation.more.as_ref().map(|change| changed(change, job.jct)),
                "one_more_worth_it": job.is_more_worth_it(market, ty),
                "one_fewer": explanation.fewer.as_ref().map(|change| changed(change, job.jct)),
                "last_worth_it": job.is_last_worth_it(market, ty),
                "alone": alone,
                "alone_at_hand": explanation.alone_now.as_ref().map(|alternative| self.alternative(job, alternative)),
            });
            if let Some(replicas) = job.replicas.get(ty) {
                value["replica"] = json!({
                    "gpus": replicas.size,
                    "count": job.counts[ty] / replicas.size,
                    "price_s": job.price(market, ty, replicas.size),
                    "left_over": replicas.left_over,
                    "most_free": replicas.most_free,
                });
            }
            value
        };
        json!({
            "name": self.problem.jobs[job.job].name.as_str(),
            "verdict": word,
            "reason": verdict.reason(),
            "jct_s": job.jct,
            "weight": job.weight,
            "gpus": self.gpus_json(&job.counts),
            "pays_s": job.pays(market, &job.counts),
            "types": job.types.iter().enumerate().map(of_type).collect::<Vec<_>>(),
            "best_at_prices": job.choice.as_ref().map(|alternative| self.alternative(job, alternative)),
            "one_node": job.one_node.as_ref().map(|alternative| self.alternative(job, alternative)),
            "one_node_at_hand": job.one_node_now.as_ref().map(|alternative| self.alternative(job, alternative)),
            "limits": job.limits.iter().map(|limit| self.limit_json(limit)).collect::<Vec<_>>(),
        })
    }

    fn alternative(&self, job: &JobExplanation, alternative: &Alternative) -> Value {
        json!({
            "gpus": self.gpus_json(&alternative.counts),
            "node": alternative.node.map(|node| self.problem.nodes[node].name.as_str()),
            "jct_s": alternative.jct,
            "pays_s": job.pays(&self.explanation.types, &alternative.counts),
        })
    }

    fn gpus_json(&self, counts: &[u32]) -> Value {
        let taken = counts.iter().zip(&self.problem.labels).filter(|(count, _)| **count > 0);
        taken.map(|(count, gpu_type)| json!({ "type": gpu_type.as_str(), "count": count })).collect()
    }

    fn limit_json(&self, limit: &PlacementLimit) -> Value {
        let name = |ty: usize| self.problem.labels[ty].as_str();
        match limit {
            PlacementLimit::Most(obstacle) => json!({ "limit": "most", "reason": obstacle.to_string() }),
            PlacementLimit::Least { least } => json!({ "limit": "least", "count": least }),
            PlacementLimit::Taken { gpu_type } => json!({ "limit": "taken", "type": name(*gpu_type) }),
            PlacementLimit::Illegal { gpu_type, obstacle } => {
                json!({ "limit": "illegal", "type": name(*gpu_type), "reason": obstacle.to_string() })
            }
            PlacementLimit::NoGain => json!({ "limit": "no_gain" }),
            PlacementLimit::Accumulation { gpu_type, micro_batches, batch, memory } => json!({
                "limit": "accumulation",
                "type": name(*gpu_type),
                "micro_batches": micro_batches,
                "batch": batch,
                "max_batch": memory,
            }),
        }
    }
}

fn changed(change: &GpuCountEffect, jct: Option<f64>) -> Value {
    match change {
        GpuCountEffect::Jct { jct: other, free } => {
            json!({ "jct_s": other, "change_s": jct.map(|jct| other - jct), "free": free })
        }
        GpuCountEffect::Not(obstacle) => not(obstacle),
    }
}

fn not(obstacle: &Obstacle) -> Value {
    json!({ "reason": obstacle.to_string() })
}
