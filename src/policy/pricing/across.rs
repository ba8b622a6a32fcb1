//! The cheapest ring over the network: branch and bound over counts by type.
//!
//! A box of counts is bounded from below by a convex problem that a sweep over the types solves: the time of
//! computing is at least A / Σ r n, where r is the most samples a second that a GPU does in the box, and the
//! communication, concave in the number of ranks, at least its chord. The box is then divided where that
//! bound is loosest: at a fractional count, in the number of ranks, or in the time of a step.

use crate::policy::pricing::Bundle;
use crate::policy::pricing::pricer::price;
use crate::policy::{JobModel, TypeModel, cost};

/// The rings of one job over the network.
#[derive(Clone, Debug)]
pub(super) struct Across<'a> {
    job: &'a JobModel,
    /// The types that the job can use in a ring, with their speeds and the GPUs on offer.
    types: Vec<(usize, TypeModel)>,
    caps: Vec<u32>,
    ranks: (u32, u32),
    /// T.
    epochs: f64,
    /// Seconds of computing at one sample a second.
    compute: f64,
    /// Seconds of communication with infinitely many ranks.
    comm: f64,
    /// B.
    batch: f64,
    /// Whether all speeds are plain rates without limits, so that no step time needs to be looked at.
    linear: bool,
    /// Samples a second at most, by type, whatever the step.
    rates: Vec<f64>,
    /// All legal rings, counts and cost, where they are few and each takes long to cost.
    table: Option<(Vec<u32>, Vec<f64>)>,
    search: Search,
}

/// Where a search stands; kept from one to the next to spare allocations.
#[derive(Clone, Debug, Default)]
struct Search {
    goal: Goal,
    prices: Vec<f64>,
    low: Vec<u32>,
    high: Vec<u32>,
    point: Vec<f64>,
    rates: Vec<f64>,
    order: Vec<usize>,
    counts: Vec<u32>,
    visits: u32,
    /// Least value of what was not looked into.
    open: f64,
    /// Least value found, or the limit.
    best: f64,
    tolerance: f64,
    best_counts: Option<Vec<u32>>,
    found: Vec<Bundle>,
    most: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Goal {
    #[default]
    Least,
    Within,
}

/// What a search for the least value found.
pub(super) struct Found {
    /// The bundle, where one is better than what was known.
    pub bundle: Option<Bundle>,
    pub floor: f64,
}

/// The part of a box that is looked at: ranks, and seconds of a step.
#[derive(Clone, Copy, Debug)]
struct Range {
    ranks: (u32, u32),
    step: (f64, f64),
}

/// The solution of the convex problem.
struct Relaxed {
    bound: f64,
    fractional: Option<usize>,
    ranks: f64,
    rate: f64,
}

/// Boxes of so few bundles are not worth a bound.
const FEW: u64 = 48;

/// The most rings that are tabulated: 4096 take about a tenth of a MiB.
const MOST_TABULATED: u64 = 4096;

/// Boxes looked at before a search for one bundle gives up and tells what is open.
const PATIENCE: u32 = 20_000;

impl<'a> Across<'a> {
    pub(super) fn new(job: &'a JobModel, network: f64, offered: &[u32]) -> Option<Self> {
        let ring = |(ty, model): (usize, &Option<TypeModel>)| {
            model.filter(|own| !own.single_rank && offered[ty] > 0).map(|own| (ty, own))
        };
        let types: Vec<(usize, TypeModel)> = job.types.iter().enumerate().filter_map(ring).collect();
        let caps: Vec<u32> = types.iter().map(|&(ty, _)| offered[ty].min(job.max_gpus)).collect();
        let ranks = (job.min_gpus.max(2), job.max_gpus.min(caps.iter().sum()));
        if ranks.0 > ranks.1 {
            return None;
        }
        let plain = |own: &(usize, TypeModel)| {
            own.1.speed.alpha() == 0.0 && (job.accumulate || own.1.max_batch.is_none())
        };
        #[expect(clippy::cast_precision_loss, reason = "batches and samples are far below 2^52")]
        let (batch, samples) = (job.global_batch as f64, job.samples_per_epoch as f64);
        let epochs = job.completion_time(1.0);
        // With two ranks a ring sends D: twice that is what infinitely many send.
        let comm = epochs * 2.0 * cost::comm_time(job, 2, network);
        let most = |own: &(usize, TypeModel)| most_rate(own.1, job.accumulate, (0.0, f64::INFINITY));
        let mut across = Self {
            job,
            linear: types.iter().all(plain),
            rates: types.iter().map(most).collect(),
            types,
            caps,
            ranks,
            epochs,
            compute: epochs * samples,
            comm,
            batch,
            table: None,
            search: Search::default(),
        };
        across.tabulate();
        Some(across)
    }

    /// Costs all rings at once where that saves costing the same ones again and again.
    fn tabulate(&mut self) {
        self.start(Goal::Within, &vec![0.0; self.job.types.len()], f64::INFINITY, 0.0);
        self.search.high.clone_from(&self.caps);
        if self.linear || self.volume() > MOST_TABULATED {
            return;
        }
        self.look_at_all(Range { ranks: self.ranks, step: (0.0, f64::INFINITY) });
        let found = std::mem::take(&mut self.search.found);
        let counts = found.iter().flat_map(|own| self.types.iter().map(|&(ty, _)| own.counts[ty])).collect();
        self.table = Some((counts, found.iter().map(|own| own.cost).collect()));
    }

    /// Returns the cheapest ring that beats `best`, if any, and what no ring undercuts.
    pub(super) fn cheapest(
        &mut self,
        prices: &[f64],
        tolerance: f64,
        best: f64,
        hint: Option<&[u32]>,
    ) -> Found {
        self.start(Goal::Least, prices, best, tolerance);
        if let Some(hint) = hint {
            let counts = self.types.iter().map(|&(ty, _)| hint[ty]).collect();
            if hint.iter().sum::<u32>() >= 2 {
                self.search.counts = counts;
                self.look();
            }
        }
        self.search.high.clone_from(&self.caps);
        self.search();
        let floor = self.search.worth_less().min(self.search.open);
        Found { bundle: self.answer(), floor }
    }

    /// Returns the cheapest ring within `room` that beats `below`.
    pub(super) fn within_room(
        &mut self,
        prices: &[f64],
        room: &[u32],
        tolerance: f64,
        below: f64,
    ) -> Option<Bundle> {
        self.start(Goal::Least, prices, below, tolerance);
        let most = |(&cap, &(ty, _)): (&u32, &(usize, TypeModel))| cap.min(room[ty]);
        self.search.high = self.caps.iter().zip(&self.types).map(most).collect();
        self.search();
        self.answer()
    }

    /// Returns all rings with a value of at most `limit`; `None` when they are more than `most`.
    pub(super) fn within(&mut self, prices: &[f64], limit: f64, most: usize) -> Option<Vec<Bundle>> {
        self.start(Goal::Within, prices, limit, 0.0);
        self.search.most = most;
        self.search.high.clone_from(&self.caps);
        self.search();
        (self.search.open == f64::INFINITY).then(|| std::mem::take(&mut self.search.found))
    }

    /// Looks at all rings up to `high`: in the table where there is one.
    fn search(&mut self) {
        let Some((counts, costs)) = self.table.take() else {
            self.visit(Range { ranks: self.ranks, step: (0.0, f64::INFINITY) });
            return;
        };
        for (counts, &cost) in counts.chunks_exact(self.types.len()).zip(&costs) {
            let value = cost + price(&self.search.prices, counts);
            if value <= self.search.best && counts.iter().zip(&self.search.high).all(|(n, most)| n <= most) {
                self.found(counts, cost, value);
            }
        }
        let few = self.search.goal == Goal::Least || self.search.found.len() <= self.search.most;
        self.search.open = if few { f64::INFINITY } else { f64::NEG_INFINITY };
        self.table = Some((counts, costs));
    }

    fn start(&mut self, goal: Goal, prices: &[f64], best: f64, tolerance: f64) {
        let search = &mut self.search;
        search.goal = goal;
        search.prices.clear();
        search.prices.extend(self.types.iter().map(|&(ty, _)| prices[ty]));
        search.low.clear();
        search.low.resize(self.types.len(), 0);
        search.point.resize(self.types.len(), 0.0);
        search.rates.clone_from(&self.rates);
        search.order.clear();
        search.order.extend(0..self.types.len());
        (search.visits, search.open, search.best, search.tolerance) = (0, f64::INFINITY, best, tolerance);
        search.best_counts = None;
        search.found.clear();
    }

    fn answer(&mut self) -> Option<Bundle> {
        let counts = self.search.best_counts.take()?;
        let cost = self.cost(&counts)?;
        Some(Bundle { counts: self.full(&counts), cost })
    }

    /// Returns counts over all types from those over this job's.
    fn full(&self, counts: &[u32]) -> Vec<u32> {
        let mut full = vec![0; self.job.types.len()];
        for (&(ty, _), &count) in self.types.iter().zip(counts) {
            full[ty] = count;
        }
        full
    }

    fn cost(&self, counts: &[u32]) -> Option<f64> {
        let ranks: u32 = counts.iter().sum();
        if !(self.ranks.0..=self.ranks.1).contains(&ranks) {
            return None;
        }
        let compute = if self.linear {
            let (mut rate, mut slowest) = (0.0, f64::INFINITY);
            for (&own, &count) in self.rates.iter().zip(counts).filter(|(_, count)| **count > 0) {
                rate += own * f64::from(count);
                slowest = slowest.min(own);
            }
            let legal = slowest * self.batch >= quantum(self.job) * rate * (1.0 - cost::SHARE_TOLERANCE);
            legal.then_some(self.compute / rate)?
        } else {
            self.epochs * cost::compute_time(self.job, &self.full(counts))?
        };
        Some(compute + self.comm * (1.0 - f64::from(ranks).recip()))
    }

    /// Looks at the bundle in `search.counts`.
    fn look(&mut self) {
        let counts = std::mem::take(&mut self.search.counts);
        if let Some(cost) = self.cost(&counts) {
            self.found(&counts, cost, cost + price(&self.search.prices, &counts));
        }
        self.search.counts = counts;
    }

    /// Keeps a bundle where it serves the goal.
    fn found(&mut self, counts: &[u32], cost: f64, value: f64) {
        let search = &mut self.search;
        if search.goal == Goal::Least && value < search.best {
            search.best = value;
            search.best_counts = Some(counts.to_vec());
        } else if search.goal == Goal::Within && value <= search.best {
            let counts = self.full(counts);
            self.search.found.push(Bundle { counts, cost });
        }
    }

    /// Looks for bundles in the box between `low` and `high`.
    fn visit(&mut self, range: Range) {
        self.search.visits += 1;
        let Some(range) = self.tighten(range) else { return };
        if self.volume() <= FEW {
            self.look_at_all(range);
            return;
        }
        let relaxed = self.relax(range);
        if !self.promising(relaxed.bound) {
            return;
        }
        let full = self.search.goal == Goal::Within && self.search.found.len() > self.search.most;
        if self.search.visits > PATIENCE || full {
            self.search.open = self.search.open.min(relaxed.bound);
            return;
        }
        if self.search.goal == Goal::Least {
            self.round(relaxed.fractional);
            if !self.promising(relaxed.bound) {
                return;
            }
        }
        self.divide(range, &relaxed);
    }

    /// Returns the number of bundles in the box.
    fn volume(&self) -> u64 {
        let sides =
            self.search.low.iter().zip(&self.search.high).map(|(low, high)| u64::from(high - low) + 1);
        sides.fold(1, u64::saturating_mul)
    }

    /// Looks at every bundle of the box, in the range of ranks.
    fn look_at_all(&mut self, range: Range) {
        self.search.counts.clone_from(&self.search.low);
        loop {
            let ranks: u32 = self.search.counts.iter().sum();
            if (range.ranks.0..=range.ranks.1).contains(&ranks) {
                self.look();
            }
            let Search { counts, low, high, .. } = &mut self.search;
            let Some(ty) = (0..counts.len()).find(|&ty| counts[ty] < high[ty]) else { return };
            counts[ty] += 1;
            counts[..ty].copy_from_slice(&low[..ty]);
        }
    }

    fn promising(&self, bound: f64) -> bool {
        let search = &self.search;
        match search.goal {
            Goal::Least => bound < search.worth_less(),
            Goal::Within => bound <= search.best,
        }
    }

    /// Looks at the whole bundles next to the relaxed point.
    fn round(&mut self, fractional: Option<usize>) {
        let search = &mut self.search;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between counts")]
        let down = |count: &f64| count.floor() as u32;
        search.counts.clear();
        search.counts.extend(search.point.iter().map(down));
        self.look();
        // The point may be that of another toll than the one whose bound was best.
        if let Some(ty) = fractional.filter(|&ty| self.search.counts[ty] < self.search.high[ty]) {
            self.search.counts[ty] += 1;
            self.look();
        }
    }

    /// Returns the range without what cannot be in the box; `None` when nothing is left.
    fn tighten(&mut self, mut range: Range) -> Option<Range> {
        let (low, high): (u32, u32) = (self.search.low.iter().sum(), self.search.high.iter().sum());
        range.ranks = (range.ranks.0.max(low), range.ranks.1.min(high));
        if range.ranks.0 > range.ranks.1 {
            return None;
        }
        // A rank takes at least a quantum: no step is shorter than the slowest used GPU needs for that.
        let used = self.types.iter().zip(&self.search.low).filter(|(_, low)| **low > 0);
        let least = used.map(|((_, own), _)| own.speed.alpha() + own.speed.beta() * quantum(self.job));
        let floor = least.fold(range.step.0, f64::max);
        if self.linear {
            let held: f64 = self.rates.iter().zip(&self.search.low).map(|(r, &n)| r * f64::from(n)).sum();
            if held * floor > self.batch * (1.0 + 1e-8) {
                return None;
            }
            range.step.0 = floor;
            return Some(range);
        }
        let fastest = cost::step_time(self.job, &self.full(&self.search.high))?;
        range.step.0 = floor.max(fastest * (1.0 - 1e-9));
        let paid: f64 = (0..self.types.len())
            .map(|ty| {
                let search = &self.search;
                let price = search.prices[ty];
                (price * f64::from(search.low[ty])).min(price * f64::from(search.high[ty]))
            })
            .sum();
        let worth = (self.search.best - paid) * self.batch / self.compute * (1.0 + 1e-9);
        range.step.1 = range.step.1.min(worth);
        if low > 0
            && let Some(slowest) = cost::step_time(self.job, &self.full(&self.search.low))
        {
            range.step.1 = range.step.1.min(slowest * (1.0 + 1e-9));
        }
        if range.step.0 > range.step.1 {
            return None;
        }
        for (rate, (_, own)) in self.search.rates.iter_mut().zip(&self.types) {
            *rate = most_rate(*own, self.job.accumulate, range.step);
        }
        Some(range)
    }

    /// Solves the convex problem of the box.
    fn relax(&mut self, range: Range) -> Relaxed {
        let (first, last) = range.ranks;
        let at = |ranks: u32| self.comm * (1.0 - f64::from(ranks).recip());
        let slope = if first == last { 0.0 } else { (at(last) - at(first)) / f64::from(last - first) };
        let constant = at(first) - slope * f64::from(first);
        let mut relaxed = self.fill(range, slope);
        relaxed.bound += constant;
        if relaxed.ranks > f64::from(last) {
            self.toll(range, (slope, constant, f64::from(last)), 1.0, relaxed)
        } else if relaxed.ranks < f64::from(first) {
            self.toll(range, (slope, constant, f64::from(first)), -1.0, relaxed)
        } else {
            relaxed
        }
    }

    /// Raises the bound by a toll on each rank that brings their number to `limit`: any toll gives a true
    /// bound, the best one is looked for by doubling and halving.
    fn toll(
        &mut self,
        range: Range,
        (slope, constant, limit): (f64, f64, f64),
        side: f64,
        mut best: Relaxed,
    ) -> Relaxed {
        let start = self.compute / (limit * limit * self.rates.iter().copied().fold(0.0, f64::max));
        let (mut near, mut far, mut closed) = (0.0, side * start, false);
        for _ in 0..20 {
            let toll = if closed { f64::midpoint(near, far) } else { far };
            let tolled = self.fill(range, slope + toll);
            let beyond = (tolled.ranks - limit) * side > 0.0;
            let bound = tolled.bound + constant - toll * limit;
            if bound > best.bound {
                best = Relaxed { bound, ..tolled };
            }
            match (closed, beyond) {
                (false, true) => (near, far) = (far, far * 4.0),
                (_, false) => (far, closed) = (toll, true),
                (true, true) => near = toll,
            }
        }
        best
    }

    /// Minimises compute / rate + Σ (price + toll) n over real counts in the box: the GPUs that give most
    /// samples for their price first, as long as one more is worth it.
    fn fill(&mut self, range: Range, toll: f64) -> Relaxed {
        let Search { prices, low, high, point, rates, order, .. } = &mut self.search;
        let pays = |ty: usize| prices[ty] + toll;
        for at in 1..order.len() {
            let mut at = at;
            let cheaper = |a: usize, b: usize| pays(a) * rates[b] < pays(b) * rates[a];
            while at > 0 && cheaper(order[at], order[at - 1]) {
                order.swap(at, at - 1);
                at -= 1;
            }
        }
        let (mut rate, mut paid, mut ranks) = (0.0, 0.0, 0.0);
        for ty in 0..low.len() {
            let count = f64::from(low[ty]);
            point[ty] = count;
            rate += rates[ty] * count;
            paid += pays(ty) * count;
            ranks += count;
        }
        // More than this in a step no box of this range can take.
        let most = if range.step.0 > 0.0 { self.batch / range.step.0 } else { f64::INFINITY };
        let mut fractional = None;
        for &ty in order.iter() {
            let worth =
                if pays(ty) > 0.0 { (self.compute * rates[ty] / pays(ty)).sqrt() } else { f64::INFINITY };
            let wanted = worth.min(if pays(ty) > 0.0 { most } else { f64::INFINITY });
            if rate >= wanted || rates[ty] <= 0.0 {
                continue;
            }
            let room = f64::from(high[ty] - low[ty]);
            let more = ((wanted - rate) / rates[ty]).min(room);
            point[ty] += more;
            rate += rates[ty] * more;
            paid += pays(ty) * more;
            ranks += more;
            if more < room && point[ty].fract() > 1e-9 && point[ty].fract() < 1.0 - 1e-9 {
                fractional = Some(ty);
            }
        }
        let compute = self.compute / rate.min(most);
        Relaxed { bound: (compute + paid) * (1.0 - 1e-12), fractional, ranks, rate }
    }

    /// Divides the box where its bound is loosest and visits the parts, the likelier first.
    fn divide(&mut self, range: Range, relaxed: &Relaxed) {
        let (first, last) = range.ranks;
        let at = |ranks: f64| self.comm * (1.0 - ranks.recip());
        let chord = |ranks: f64| {
            let (a, b) = (f64::from(first), f64::from(last));
            at(a) + (at(b) - at(a)) * if b > a { (ranks - a) / (b - a) } else { 0.0 }
        };
        let within = relaxed.ranks.clamp(f64::from(first), f64::from(last));
        let comm_gap = if last > first { at(within) - chord(within) } else { 0.0 };
        let step_gap = self.step_gap(range, relaxed);
        let missing = (self.search.best - relaxed.bound).max(self.search.best - self.search.worth_less());
        let worth = if missing.is_finite() { 0.1 * missing } else { 0.1 * relaxed.bound };
        if self.search.goal == Goal::Within && self.search.best == f64::INFINITY {
            self.divide_counts(range, relaxed.fractional);
        } else if comm_gap >= step_gap && comm_gap > worth {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between counts")]
            let middle = ((f64::from(first) * f64::from(last)).sqrt() as u32).clamp(first, last - 1);
            let parts =
                [Range { ranks: (first, middle), ..range }, Range { ranks: (middle + 1, last), ..range }];
            let right = relaxed.ranks > f64::from(middle) + 0.5;
            self.visit(parts[usize::from(right)]);
            self.visit(parts[usize::from(!right)]);
        } else if step_gap > worth && range.step.1 - range.step.0 > 1e-9 * range.step.1 {
            let last = if range.step.1 == f64::INFINITY { 3.0 * range.step.0 } else { range.step.1 };
            let middle = f64::midpoint(range.step.0, last);
            let parts = [
                Range { step: (range.step.0, middle), ..range },
                Range { step: (middle, range.step.1), ..range },
            ];
            let right = self.batch / relaxed.rate > middle;
            self.visit(parts[usize::from(right)]);
            self.visit(parts[usize::from(!right)]);
        } else {
            self.divide_counts(range, relaxed.fractional);
        }
    }

    /// Returns how much of the bound is lost by taking each GPU's best rate over all steps of the range.
    fn step_gap(&self, range: Range, relaxed: &Relaxed) -> f64 {
        if self.linear {
            return 0.0;
        }
        let step = (self.batch / relaxed.rate).clamp(range.step.0, range.step.1);
        let rate = |(&(_, own), &count): (&(usize, TypeModel), &f64)| {
            count * most_rate(own, self.job.accumulate, (step, step))
        };
        let rate: f64 = self.types.iter().zip(&self.search.point).map(rate).sum();
        if rate > 0.0 { self.compute / rate - self.compute / relaxed.rate } else { f64::INFINITY }
    }

    fn divide_counts(&mut self, range: Range, fractional: Option<usize>) {
        let search = &self.search;
        let width = |ty: &usize| search.high[*ty] - search.low[*ty];
        let Some(ty) = fractional.or_else(|| (0..search.low.len()).max_by_key(width)) else { return };
        let (low, high) = (search.low[ty], search.high[ty]);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between counts")]
        let middle = (search.point[ty].floor() as u32).clamp(low, high - 1);
        let left_first = search.point[ty].fract() < 0.5;
        for left in [left_first, !left_first] {
            if left {
                self.search.high[ty] = middle;
            } else {
                self.search.low[ty] = middle + 1;
            }
            self.visit(range);
            (self.search.low[ty], self.search.high[ty]) = (low, high);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "quanta are far below 2^52")]
fn quantum(job: &JobModel) -> f64 {
    job.batch_quantum as f64
}

impl Search {
    /// Returns the value below which a bundle is worth finding.
    fn worth_less(&self) -> f64 {
        if self.best == f64::INFINITY { self.best } else { self.best - self.tolerance * self.best.abs() }
    }
}

/// Returns the most samples a second that a GPU does in a step of a length in the range: s(τ) / τ rises until
/// its memory is full, then stays with micro-batches and falls without.
fn most_rate(model: TypeModel, accumulate: bool, (shortest, longest): (f64, f64)) -> f64 {
    let (alpha, beta) = (model.speed.alpha(), model.speed.beta());
    let open =
        |step: f64| if step == f64::INFINITY { beta.recip() } else { ((1.0 - alpha / step) / beta).max(0.0) };
    let Some(memory) = model.max_batch else { return open(longest) };
    #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^52")]
    let memory = memory as f64;
    let full = alpha + beta * memory;
    if longest <= full {
        open(longest)
    } else if accumulate || shortest <= full {
        memory / full
    } else {
        memory / shortest
    }
}
