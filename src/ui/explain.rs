//! Why a plan is as it is, for people: prices, what each job pays, and what other GPUs would do for it.

use std::fmt::Write as _;

use crate::model::Seconds;
use crate::policy::{
    Alternative, Change, CheckedPlan, Explanation, JobExplanation, Limit, Market, Objective, Problem, Verdict,
};
use crate::ui::quantity::duration;
use crate::ui::text::wrap;
use crate::ui::{Align, Table, Terminal};

/// A plan with its explanation.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a> {
    pub problem: &'a Problem,
    pub plan: &'a CheckedPlan,
    pub policy: &'a str,
    pub explanation: &'a Explanation,
}

/// Prices below this are what a computation leaves of zero.
const NOTHING: f64 = 1e-6;

impl Explained<'_> {
    /// Returns the prices, and every job in short.
    #[must_use]
    pub fn overview(&self, terminal: Terminal) -> String {
        let placed = self.plan.verdicts().iter().filter(|verdict| verdict.placement().is_some()).count();
        let types = &self.explanation.types;
        let (offered, free) = types.iter().fold((0, 0), |(a, b), own| (a + own.offered, b + own.free));
        let (all, used, policy) = (self.problem.jobs.len(), offered - free, self.policy);
        let plural = if all == 1 { "" } else { "s" };
        let mut text = format!("{policy}: {placed} of {all} job{plural} on {used} of {offered} GPUs\n\n");
        text.push_str(&self.market(terminal));
        let mut table = Table::new(&[
            ("JOB", Align::Left),
            ("GPUS", Align::Left),
            ("DONE IN", Align::Right),
            ("PAYS", Align::Right),
            ("BEST TYPE ALONE", Align::Left),
            ("DONE IN", Align::Right),
            ("PAYS", Align::Right),
        ]);
        let jobs = &self.explanation.jobs;
        for job in jobs.iter().filter(|job| job.jct.is_some()) {
            let alone = job.best_type().map(|(_, own)| own);
            table.row([
                self.name(job),
                self.gpus(&job.counts),
                time(job.jct),
                time(job.pays(types, &job.counts)),
                alone.map_or_else(|| "-".into(), |own| self.gpus(&own.counts)),
                time(alone.map(|own| own.jct)),
                time(alone.and_then(|own| job.pays(types, &own.counts))),
            ]);
        }
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table.render(terminal.width(), terminal.colour()));
        }
        text.push('\n');
        for job in jobs {
            let line = format!("{}{}", self.heading_of_line(job), self.sentences(job).join("; "));
            let _ = writeln!(text, "{}", wrap(line.trim_end_matches([':', ' ']), terminal.width(), "  "));
        }
        text
    }

    /// Returns all that there is to say of the jobs asked for.
    #[must_use]
    pub fn details(&self, terminal: Terminal) -> String {
        let job = |job: &JobExplanation| match job.jct {
            Some(jct) => self.placed(job, jct, terminal),
            None => self.unplaced(job, terminal),
        };
        self.explanation.jobs.iter().map(job).collect::<Vec<_>>().join("\n")
    }

    /// The GPUs on offer with their prices, and what a price is.
    fn market(&self, terminal: Terminal) -> String {
        let mut table = Table::new(&[
            ("GPU", Align::Left),
            ("ON OFFER", Align::Right),
            ("FREE", Align::Right),
            ("PRICE", Align::Right),
        ]);
        let types = self.problem.gpu_types.iter().zip(&self.explanation.types);
        for (gpu_type, own) in types.filter(|(_, own)| own.offered > 0) {
            table.row([gpu_type.to_string(), own.offered.to_string(), own.free.to_string(), time(own.price)]);
        }
        if table.is_empty() {
            return "No GPU is on offer.\n".into();
        }
        let mut text = table.render(terminal.width(), terminal.colour());
        if self.explanation.types.iter().any(|own| own.price.is_some()) {
            let of = match self.problem.objective {
                Objective::MeanJct => "all jobs' completion times added up",
                Objective::Weighted => "all jobs' completion times times their weights, added up",
                Objective::Makespan => "the last completion",
            };
            let meaning = format!(
                "A price is what a GPU is worth to the jobs together, in seconds of {of}: the prices that prove \
                 the highest lower bound. A type at 0 s is not scarce."
            );
            let _ = write!(text, "\n{}\n", wrap(&meaning, terminal.width(), ""));
        }
        text
    }

    fn placed(&self, job: &JobExplanation, jct: f64, terminal: Terminal) -> String {
        let types = &self.explanation.types;
        let mut text = format!("{}: {}, done in {}", self.name(job), self.gpus(&job.counts), time(Some(jct)));
        if let Some(pays) = job.pays(types, &job.counts) {
            let _ = write!(text, "; at the prices it pays {}", time(Some(pays)));
        }
        let mut text = wrap(&text, terminal.width(), "  ") + "\n\n";
        let mut table = Table::new(&[
            ("GPU", Align::Left),
            ("HAS", Align::Right),
            ("FREE", Align::Right),
            ("PRICE", Align::Right),
            ("PAYS", Align::Right),
            ("ONE FEWER", Align::Right),
            ("ONE MORE", Align::Right),
        ]);
        for (ty, own) in job.types.iter().enumerate().filter(|(ty, _)| types[*ty].offered > 0) {
            table.row([
                self.problem.gpu_types[ty].to_string(),
                job.counts[ty].to_string(),
                types[ty].free.to_string(),
                time(job.price(types, ty, 1)),
                time(job.price(types, ty, job.counts[ty])),
                change(own.fewer.as_ref(), job.loss(ty).map(|loss| -loss)),
                change(own.more.as_ref(), job.gain(ty).map(|(gain, _)| gain)),
            ]);
        }
        text.push_str(&table.render(terminal.width(), terminal.colour()));
        text.push('\n');
        for sentence in self.sentences(job).iter().chain(&self.unused(job)) {
            let _ = writeln!(text, "{}", wrap(sentence, terminal.width(), "  "));
        }
        let _ = write!(text, "\n{}", self.instead(job, jct, terminal));
        text
    }

    /// What the job could have instead, with what it would pay for it.
    fn instead(&self, job: &JobExplanation, jct: f64, terminal: Terminal) -> String {
        let types = &self.explanation.types;
        let mut table = Table::new(&[
            ("INSTEAD", Align::Left),
            ("AT HAND", Align::Left),
            ("DONE IN", Align::Right),
            ("PAYS", Align::Right),
            ("TOGETHER", Align::Right),
        ]);
        let mut row = |name: String, hand: &str, jct: f64, counts: &[u32]| {
            let pays = job.pays(types, counts);
            table.row([name, hand.into(), time(Some(jct)), time(pays), time(pays.map(|pays| pays + jct))]);
        };
        row("nothing: as planned".into(), "", jct, &job.counts);
        let by_type = job.types.iter().map(|own| (own.alone.as_ref().ok(), own.alone_now.as_ref()));
        let by_node = [(job.one_node.as_ref(), job.one_node_now.as_ref())];
        for (best, now) in by_type.chain(by_node) {
            let Some(best) = best else { continue };
            let name = |own: &Alternative| match own.node {
                Some(node) => {
                    format!("one node: {} of {}", self.gpus(&own.counts), self.problem.nodes[node].name)
                }
                None => format!("one type: {}", self.gpus(&own.counts)),
            };
            // Of equal numbers and times those at hand are meant.
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
        table.render(terminal.width(), terminal.colour())
    }

    fn unplaced(&self, job: &JobExplanation, terminal: Terminal) -> String {
        let mut text = wrap(&self.heading_of_line(job), terminal.width(), "  ") + "\n\n";
        let mut table = Table::new(&[
            ("GPU", Align::Left),
            ("ON OFFER", Align::Right),
            ("FREE", Align::Right),
            ("PRICE", Align::Right),
            ("WHY NOT", Align::Left),
        ]);
        for (ty, own) in self.explanation.types.iter().enumerate() {
            table.row([
                self.problem.gpu_types[ty].to_string(),
                own.offered.to_string(),
                own.free.to_string(),
                time(own.price),
                self.why_not(job, ty, own),
            ]);
        }
        if !table.is_empty() {
            text.push_str(&table.render(terminal.width(), terminal.colour()));
        }
        if let Some((_, best)) = job.best_type() {
            let (gpus, jct) = (self.gpus(&best.counts), time(Some(best.jct)));
            let line =
                format!("With all GPUs on offer to itself, the best type alone: {gpus}, done in {jct}.");
            let _ = write!(text, "\n{}\n", wrap(&line, terminal.width(), "  "));
        }
        text
    }

    /// Says why a job that waits or is rejected has no GPU of a type.
    fn why_not(&self, job: &JobExplanation, ty: usize, market: &Market) -> String {
        let least = self.problem.jobs[job.job].min_gpus;
        match (&job.types[ty].alone, &job.types[ty].alone_now) {
            (Err(obstacle), _) => obstacle.to_string(),
            (Ok(_), Some(now)) => format!("nothing: {} would do", self.gpus(&now.counts)),
            (Ok(_), None) if market.free == 0 => "other jobs of this plan have them".into(),
            (Ok(_), None) if market.free < least => format!("min_gpus is {least}"),
            (Ok(_), None) => "the free ones do not suffice".into(),
        }
    }

    /// Returns what binds a placed job, and what another number of GPUs would be worth.
    fn sentences(&self, job: &JobExplanation) -> Vec<String> {
        let types = &self.explanation.types;
        let mut sentences: Vec<String> =
            job.limits.iter().filter_map(|limit| self.limit(job, limit)).collect();
        for (ty, name) in self.problem.gpu_types.iter().enumerate() {
            if let Some((gain, true)) = job.gain(ty).filter(|(gain, _)| *gain > 0.0) {
                let free = types[ty].free;
                let sooner = time(Some(gain));
                sentences.push(format!("{free} {name} free: one more would end it {sooner} sooner"));
            }
            if let (Some(loss), Some(price)) = (job.loss(ty), job.price(types, ty, 1)) {
                if loss < 0.0 {
                    sentences.push(format!("one {name} fewer would end it {} sooner", time(Some(-loss))));
                } else if loss < price - NOTHING {
                    let (loss, price) = (time(Some(loss)), time(Some(price)));
                    sentences.push(format!("a {name} is worth {loss} to it, less than the price of {price}"));
                }
            }
        }
        sentences
    }

    fn limit(&self, job: &JobExplanation, limit: &Limit) -> Option<String> {
        let types = &self.explanation.types;
        let name = |ty: usize| &self.problem.gpu_types[ty];
        Some(match limit {
            Limit::Most(obstacle) => format!("no GPU more: {obstacle}"),
            Limit::Least { least } => format!("no GPU fewer: min_gpus is {least}"),
            Limit::Illegal { gpu_type, obstacle } => format!("no {} more: {obstacle}", name(*gpu_type)),
            Limit::NoGain => "no GPU more would end it sooner".into(),
            Limit::Accumulation { gpu_type, micro_batches, batch, memory } => format!(
                "{batch} samples in {micro_batches} micro-batches on a {}, whose memory holds {memory}",
                name(*gpu_type)
            ),
            Limit::Taken { gpu_type } => {
                let (gain, _) = job.gain(*gpu_type)?;
                let sooner = time(Some(gain));
                let begin = format!("one {} more, all taken, would end it {sooner} sooner", name(*gpu_type));
                match job.price(types, *gpu_type, 1) {
                    Some(price) => {
                        let verdict = if gain > price { "worth" } else { "not worth" };
                        format!("{begin}: {verdict} its price of {}", time(Some(price)))
                    }
                    None => begin,
                }
            }
        })
    }

    /// Returns the types that the job cannot use, with the reasons.
    fn unused(&self, job: &JobExplanation) -> Vec<String> {
        let not = |(ty, own): (usize, &crate::policy::TypeExplanation)| {
            let obstacle = own.alone.as_ref().err()?;
            Some(format!("{} alone cannot be: {obstacle}", self.problem.gpu_types[ty]))
        };
        let usable = |ty: usize| self.problem.jobs[job.job].types[ty].is_some();
        let types = job.types.iter().enumerate().filter(|(ty, _)| self.explanation.types[*ty].offered > 0);
        let (usable, unusable): (Vec<_>, Vec<_>) = types.partition(|(ty, _)| usable(*ty));
        let never = |(ty, own): (usize, &crate::policy::TypeExplanation)| {
            Some(format!("{} not used: {}", self.problem.gpu_types[ty], own.alone.as_ref().err()?))
        };
        unusable.into_iter().filter_map(never).chain(usable.into_iter().filter_map(not)).collect()
    }

    /// Returns what a line on a job begins with: its name, or that it waits and why.
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
        let own = counts.iter().zip(&self.problem.gpu_types).filter(|(count, _)| **count > 0);
        own.map(|(count, gpu_type)| format!("{count} {gpu_type}")).collect::<Vec<_>>().join(", ")
    }
}

/// Returns a time or price, `-` where there is none.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".into(),
        Some(seconds) if seconds.abs() < NOTHING => "0 s".into(),
        Some(seconds) => duration(Seconds(seconds)),
    }
}

/// Says what another number of GPUs does: `saved` seconds, or why it cannot be.
fn change(change: Option<&Change>, saved: Option<f64>) -> String {
    match (change, saved) {
        (Some(Change::Not(obstacle)), _) => obstacle.to_string(),
        (_, Some(saved)) if saved.abs() < NOTHING => "the same".into(),
        (_, Some(saved)) if saved > 0.0 => format!("{} sooner", time(Some(saved))),
        (_, Some(saved)) => format!("{} later", time(Some(-saved))),
        (..) => "-".into(),
    }
}
