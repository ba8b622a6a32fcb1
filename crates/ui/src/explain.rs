//! The explanation of a plan for people: prices, what each job pays, and the effect of other GPUs.

mod limits;

use std::fmt::Write as _;

use crate::quantity::duration;
use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_model::Seconds;
use hsched_plan::{
    Alternative, CheckedPlan, Explanation, GpuCountEffect, JobExplanation, Objective, Obstacle,
    PlacementLimit, Problem, TypeMarket, Verdict,
};

/// A plan with its explanation.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedPlan<'a> {
    pub problem: &'a Problem,
    pub plan: &'a CheckedPlan,
    pub policy: &'a str,
    pub explanation: &'a Explanation,
}

/// Prices below this are rounding errors; the true price is zero.
const NOTHING: f64 = 1e-6;

impl ExplainedPlan<'_> {
    /// Returns the prices, a row for each placed job, and a line for each job that is not placed or for which
    /// there is more to say.
    pub fn overview(&self, terminal: Terminal) -> String {
        let placed = self.plan.verdicts().iter().filter(|verdict| verdict.placement().is_some()).count();
        let types = &self.explanation.types;
        let (offered, free) =
            types.iter().fold((0, 0), |(a, b), market| (a + market.offered, b + market.free));
        let (all, used, policy) = (self.problem.jobs.len(), offered - free, self.policy);
        let plural = if all == 1 { "" } else { "s" };
        let mut text = format!("{policy}: {placed} of {all} job{plural} on {used} of {offered} GPUs\n\n");
        text.push_str(&self.market(terminal));
        let mut table = Table::new(&[
            ("JOB", Align::Left),
            ("GPUS", Align::Left),
            ("DONE IN", Align::Right),
            ("PAYS", Align::Right),
            ("ONE TYPE", Align::Left),
            ("DONE IN", Align::Right),
        ]);
        let jobs = &self.explanation.jobs;
        for job in jobs.iter().filter(|job| job.jct.is_some()) {
            let alone = job.best_type().map(|(_, alternative)| alternative);
            table.row([
                self.name(job),
                self.gpus(&job.counts),
                time(job.jct),
                time(job.pays(types, &job.counts)),
                alone.map_or_else(|| "-".into(), |alternative| self.gpus(&alternative.counts)),
                time(alone.map(|alternative| alternative.jct)),
            ]);
        }
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table.show(terminal));
        }
        text.push('\n');
        for job in jobs {
            let sentences = self.sentences(job);
            if job.jct.is_none() || !sentences.is_empty() {
                let line = format!("{}{}", self.heading_of_line(job), sentences.join("; "));
                let _ = writeln!(text, "{}", wrap(&line, terminal.width(), "  "));
            }
        }
        text
    }

    /// Returns the full explanation of the selected jobs.
    pub fn details(&self, terminal: Terminal) -> String {
        let job = |job: &JobExplanation| match job.jct {
            Some(jct) => self.placed(job, jct, terminal),
            None => self.unplaced(job, terminal),
        };
        self.explanation.jobs.iter().map(job).collect::<Vec<_>>().join("\n")
    }

    /// Returns the GPU types with their prices, and the meaning of a price.
    fn market(&self, terminal: Terminal) -> String {
        let mut table = Table::new(&[
            ("GPU", Align::Left),
            ("AVAILABLE", Align::Right),
            ("UNUSED", Align::Right),
            ("PRICE", Align::Right),
        ]);
        let types = self.problem.labels.iter().zip(&self.explanation.types);
        for (gpu_type, market) in types.filter(|(_, market)| market.offered > 0) {
            table.row([
                gpu_type.clone(),
                market.offered.to_string(),
                market.free.to_string(),
                time(market.price),
            ]);
        }
        if table.is_empty() {
            return "No GPUs are available.\n".into();
        }
        let mut text = table.show(terminal);
        if self.explanation.types.iter().any(|market| market.price.is_some()) {
            let of = match self.problem.objective {
                Objective::MeanJct => "the sum of all completion times",
                Objective::Weighted => "the weighted sum of all completion times",
                Objective::Makespan => "the makespan",
                Objective::Deadlines => "the sum of all completion times plus the cost of late jobs",
            };
            let meaning = format!(
                "A price is what one GPU is worth to all jobs together, in seconds of {of}. These prices prove the best lower bound. A type with price 0 s is not scarce."
            );
            let _ = write!(text, "\n{}\n", wrap(&meaning, terminal.width(), ""));
        }
        text
    }

    fn placed(&self, job: &JobExplanation, jct: f64, terminal: Terminal) -> String {
        let types = &self.explanation.types;
        let mut text = format!("{}: {}, done in {}", self.name(job), self.gpus(&job.counts), time(Some(jct)));
        if let Some(pays) = job.pays(types, &job.counts) {
            let _ = write!(text, "; at these prices it pays {}", time(Some(pays)));
        }
        if let Some(weight) = job.weight.filter(|weight| (weight - 1.0).abs() > NOTHING) {
            let _ = write!(text, "; prices are in seconds of its own completion time (weight {weight:.3})");
        }
        let mut text = wrap(&text, terminal.width(), "  ") + "\n\n";
        let mut table = Table::new(&[
            ("GPU", Align::Left),
            ("HAS", Align::Right),
            ("UNUSED", Align::Right),
            ("PRICE", Align::Right),
            ("PAYS", Align::Right),
            (if job.replicas.is_empty() { "ONE FEWER" } else { "REPLICA LESS" }, Align::Right),
            (if job.replicas.is_empty() { "ONE MORE" } else { "REPLICA MORE" }, Align::Right),
        ]);
        for (ty, explanation) in job.types.iter().enumerate().filter(|(ty, _)| types[*ty].offered > 0) {
            table.row([
                self.problem.labels[ty].clone(),
                job.counts[ty].to_string(),
                types[ty].free.to_string(),
                time(job.price(types, ty, job.size(ty))),
                time(job.price(types, ty, job.counts[ty])),
                change(explanation.fewer.as_ref(), job.loss(ty).map(|loss| -loss)),
                change(explanation.more.as_ref(), job.gain(ty).map(|(gain, _)| gain)),
            ]);
        }
        text.push_str(&table.show(terminal));
        text.push('\n');
        for sentence in self.sentences(job).iter().chain(&self.unused(job)).chain(&self.speeds(job)) {
            let _ = writeln!(text, "{}", wrap(&format!("- {sentence}"), terminal.width(), "  "));
        }
        let _ = write!(text, "\n{}", self.instead(job, jct, terminal));
        text
    }

    /// Returns the alternatives of a job with what it would pay for them.
    fn instead(&self, job: &JobExplanation, jct: f64, terminal: Terminal) -> String {
        let types = &self.explanation.types;
        let mut table = Table::new(&[
            ("ALTERNATIVE", Align::Left),
            ("AVAILABLE", Align::Left),
            ("DONE IN", Align::Right),
            ("PAYS", Align::Right),
            ("TOTAL", Align::Right),
        ]);
        let mut row = |name: String, hand: &str, jct: f64, counts: &[u32]| {
            let pays = job.pays(types, counts);
            table.row([name, hand.into(), time(Some(jct)), time(pays), time(pays.map(|pays| pays + jct))]);
        };
        row("as planned".into(), "", jct, &job.counts);
        let by_type = job
            .types
            .iter()
            .map(|explanation| (explanation.alone.as_ref().ok(), explanation.alone_now.as_ref()));
        let by_node = [(job.one_node.as_ref(), job.one_node_now.as_ref())];
        if let Some(choice) = job.choice.as_ref().filter(|choice| choice.counts != job.counts) {
            let name = format!("best at these prices: {}", self.gpus(&choice.counts));
            row(name, "", choice.jct, &choice.counts);
        }
        for (best, now) in by_type.chain(by_node) {
            let Some(best) = best else { continue };
            let name = |alternative: &Alternative| match alternative.node {
                Some(node) => {
                    format!(
                        "one node: {} of {}",
                        self.gpus(&alternative.counts),
                        self.problem.nodes[node].name
                    )
                }
                None => format!("one type: {}", self.gpus(&alternative.counts)),
            };
            // If the free GPUs allow the same counts and the same time, one row describes both.
            let same = now.filter(|now| now.counts == best.counts && now.jct == best.jct);
            row(
                name(same.unwrap_or(best)),
                if same.is_some() { "yes" } else { "no" },
                best.jct,
                &best.counts,
            );
            if let Some(now) = now.filter(|_| same.is_none()) {
                row(name(now), "yes", now.jct, &now.counts);
            }
        }
        table.show(terminal)
    }

    fn unplaced(&self, job: &JobExplanation, terminal: Terminal) -> String {
        let mut text = wrap(&self.heading_of_line(job), terminal.width(), "  ") + "\n\n";
        let mut table = Table::new(&[
            ("GPU", Align::Left),
            ("AVAILABLE", Align::Right),
            ("UNUSED", Align::Right),
            ("PRICE", Align::Right),
            ("WHY NOT", Align::Left),
        ]);
        for (ty, market) in self.explanation.types.iter().enumerate() {
            table.row([
                self.problem.labels[ty].clone(),
                market.offered.to_string(),
                market.free.to_string(),
                time(market.price),
                self.why_not(job, ty, market),
            ]);
        }
        if !table.is_empty() {
            text.push_str(&table.show(terminal));
        }
        if let Some((_, best)) = job.best_type() {
            let (gpus, jct) = (self.gpus(&best.counts), time(Some(best.jct)));
            let line = format!(
                "If it had all available GPUs to itself, the best single type would be: {gpus}, done in {jct}."
            );
            let _ = write!(text, "\n{}\n", wrap(&line, terminal.width(), "  "));
        }
        text
    }

    /// Says why a waiting or rejected job has no GPU of a type.
    fn why_not(&self, job: &JobExplanation, ty: usize, market: &TypeMarket) -> String {
        let least = self.problem.jobs[job.job].min_gpus;
        match (&job.types[ty].alone, &job.types[ty].alone_now) {
            (Err(obstacle), _) => obstacle.to_string(),
            (Ok(_), Some(now)) => format!("nothing: {} would be enough", self.gpus(&now.counts)),
            (Ok(_), None) if market.free == 0 => "taken by other jobs of this plan".into(),
            (Ok(_), None) if !job.replicas.is_empty() => {
                let (block, most) = (job.replicas[ty].block, job.replicas[ty].most_free);
                if most < block {
                    format!("a replica needs {block} on one node; the most free is {most}")
                } else {
                    format!("min_replicas is {least}")
                }
            }
            (Ok(_), None) if market.free < least => format!("min_gpus is {least}"),
            (Ok(_), None) => "too few are free".into(),
        }
    }

    /// Returns what limits a placed job, and which GPUs would be worth their price.
    fn sentences(&self, job: &JobExplanation) -> Vec<String> {
        let market = &self.explanation.types;
        let limits = job.limits.iter().filter_map(|limit| self.limit(job, limit));
        let mut sentences: Vec<String> = self.replicas(job).into_iter().chain(limits).collect();
        let which = |filter: &dyn Fn(usize) -> bool| {
            let names = self.problem.labels.iter().enumerate().filter(|(ty, _)| filter(*ty));
            either(&names.map(|(_, name)| name.as_str()).collect::<Vec<_>>())
        };
        let mut say = |types: Option<String>, begin: &str, end: &str| {
            sentences.extend(types.map(|types| format!("{begin} {types} {end}")));
        };
        let worth = |ty: usize| job.is_more_worth_it(market, ty);
        let taken = |ty: &usize| job.limits.contains(&PlacementLimit::Taken { gpu_type: *ty });
        let free = |ty: usize| job.gain(ty).is_some_and(|(gain, free)| free && gain > 0.0);
        let (more, last) = if job.replicas.is_empty() {
            ("one more", "its last")
        } else {
            ("another replica on", "its last replica on")
        };
        say(which(&|ty| free(ty)), more, "is free and would shorten it");
        let is = |ty: usize, worthy: Option<bool>| taken(&ty) && worth(ty) == worthy;
        say(which(&|ty| is(ty, Some(true))), more, "would be worth its price, but none is free");
        say(which(&|ty| is(ty, Some(false))), more, "would not be worth its price, and none is free");
        say(which(&|ty| is(ty, None)), more, "would help, but none is free");
        let dear = |ty: usize| job.is_last_worth_it(market, ty) == Some(false);
        say(which(&dear), last, "saves less than its price");
        sentences
    }

    /// Says how the GPUs of a job form replicas, and which are left over on nodes.
    fn replicas(&self, job: &JobExplanation) -> Vec<String> {
        let of_type = |(ty, replica_explanation): (usize, &hsched_plan::ReplicaExplanation)| {
            let (count, size, name) = (job.counts[ty], replica_explanation.size, &self.problem.labels[ty]);
            if count == 0 {
                return None;
            }
            let number = count / size;
            let plural = if number == 1 { "" } else { "s" };
            let mut text = format!("{count} {name} as {number} replica{plural} of {size}");
            if replica_explanation.block > 1
                && replica_explanation.most_free < replica_explanation.block
                && self.explanation.types[ty].free > 0
            {
                let _ = write!(
                    text,
                    "; another needs {size} on one node, and the {} unused {name} are left over on nodes with at most {}",
                    replica_explanation.left_over, replica_explanation.most_free
                );
            } else if replica_explanation.block > 1
                && replica_explanation.most_free < replica_explanation.block
            {
                let _ = write!(text, "; another needs {size} on one node");
            }
            Some(text)
        };
        job.replicas.iter().enumerate().filter_map(of_type).collect()
    }

    /// Returns the beginning of a line about a job: its name, and if it is not placed, that it waits or is
    /// rejected, and why.
    fn heading_of_line(&self, job: &JobExplanation) -> String {
        let name = self.name(job);
        match &self.plan.verdicts()[job.job] {
            Verdict::Place(_) => format!("{name}: "),
            Verdict::Defer { reason } => format!("{name} waits: {reason}"),
            Verdict::Reject { reason } => format!("{name} rejected: {reason}"),
        }
    }

    fn name(&self, job: &JobExplanation) -> String {
        self.problem.jobs[job.job].name.to_string()
    }

    fn gpus(&self, counts: &[u32]) -> String {
        let taken = counts.iter().zip(&self.problem.labels).filter(|(count, _)| **count > 0);
        taken.map(|(count, gpu_type)| format!("{count} {gpu_type}")).collect::<Vec<_>>().join(", ")
    }
}

/// Returns names as alternatives, such as `a, b or c`; `None` for none.
fn either(names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [only] => Some((*only).to_owned()),
        [first @ .., last] => Some(format!("{} or {last}", first.join(", "))),
    }
}

/// Returns a time or price; `-` if there is none.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".into(),
        Some(seconds) if seconds.abs() < NOTHING => "0 s".into(),
        Some(seconds) => duration(Seconds(seconds)),
    }
}

/// Describes the effect of another number of GPUs: the `saved` seconds, or that it is impossible.
fn change(change: Option<&GpuCountEffect>, saved: Option<f64>) -> String {
    match (change, saved) {
        (Some(GpuCountEffect::Not(Obstacle::Unusable(_))), _) => "-".into(),
        (Some(GpuCountEffect::Not(Obstacle::HasAll)), _) => "has all".into(),
        (Some(GpuCountEffect::Not(Obstacle::OnlyGpu)), _) => "only GPU".into(),
        (Some(GpuCountEffect::Not(Obstacle::OnlyReplica)), _) => "only replica".into(),
        // A sentence below the table gives the reason.
        (Some(GpuCountEffect::Not(_)), _) => "no".into(),
        (_, Some(saved)) if saved.abs() < NOTHING => "the same".into(),
        (_, Some(saved)) if saved > 0.0 => format!("{} sooner", time(Some(saved))),
        (_, Some(saved)) => format!("{} later", time(Some(-saved))),
        (..) => "-".into(),
    }
}
