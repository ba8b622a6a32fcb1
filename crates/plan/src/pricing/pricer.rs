//! Prices the bundles of one job.

use std::borrow::Cow;

use crate::pricing::across::Across;
use crate::pricing::across::PATIENCE;
use crate::pricing::{Rings, StepTimes};
use crate::replica::NodeShapes;
use crate::{Due, JobModel, Problem, cost};

/// A bundle, and the job's completion time in seconds plus the cost of being late.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bundle {
    /// Replicas by type.
    pub counts: Vec<u32>,
    pub cost: f64,
}

/// The best response to prices.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PricedBundle {
    pub bundle: Bundle,
    /// The bundle's cost plus the price of its GPUs.
    pub value: f64,
    /// Lower limit for the values of all bundles: within the requested tolerance of `value`, unless the
    /// search ended early.
    pub floor: f64,
}

/// All bundles of one job, ready to be priced.
#[derive(Clone, Debug)]
pub(crate) struct Pricer<'a> {
    pub job: &'a JobModel,
    /// Maximum number of replicas by type.
    most: Vec<u32>,
    due: Option<Due>,
    /// Every legal bundle that fits on one node, but of halls only single GPUs; also every single replica if
    /// replicas may use any nodes.
    inside: Vec<Bundle>,
    /// Rings inside halls (nodes with very many GPUs), by their GPUs.
    halls: Vec<(Vec<u32>, Across<'a>)>,
    across: Option<Across<'a>>,
    /// Results of earlier searches for similar jobs.
    kept: Option<&'a StepTimes>,
}

impl<'a> Pricer<'a> {
    /// Returns the pricer of a job that may have up to `offered` replicas by type; `rings` also counts
    /// replicas.
    pub(crate) fn new(
        job: &'a JobModel,
        rings: &Rings,
        offered: &[u32],
        kept: Option<&'a StepTimes>,
    ) -> Self {
        let usable: Vec<bool> = job.types.iter().map(Option::is_some).collect();
        let alone: Vec<bool> =
            job.types.iter().map(|type_model| type_model.is_some_and(|model| model.single_rank)).collect();
        let limits = job.min_gpus..=job.max_gpus;
        let bundle = |(counts, ring): (Vec<u32>, f64)| {
            let ranks: u32 = counts.iter().sum();
            if !limits.contains(&ranks) {
                return None;
            }
            let compute = cost::compute_time(job, &counts)?;
            let epoch = compute + cost::comm_time(job, ranks, ring);
            Some(Bundle { cost: job.completion_time(epoch), counts })
        };
        let mut rings_inside = rings.inside(&usable, &alone);
        if job.is_loose() {
            rings_inside.list_loose(offered, &usable, rings.network);
        }
        let inside = rings_inside.bundles.into_iter().filter_map(bundle).collect();
        let hall = |(gpus, rate): (Vec<u32>, f64)| Some((Across::new(job, rate, &gpus, kept)?, gpus));
        let halls =
            rings_inside.halls.into_iter().filter_map(hall).map(|(across, gpus)| (gpus, across)).collect();
        let across = Across::new(job, rings.network, offered, kept);
        Self { job, most: offered.to_vec(), due: None, inside, halls, across, kept }
    }

    /// Returns the pricer of a job that may have all offered GPUs; `rings` has the rings of single GPUs.
    pub(crate) fn alone(problem: &Problem, rings: &Rings, job: &'a JobModel) -> Self {
        if job.has_several_gpus() {
            let most = job.most_replicas(&NodeShapes::offered(problem));
            return Self::new(job, &rings.of_replicas(job), &most, None);
        }
        Self::new(job, rings, &problem.offered(), None)
    }

    /// Returns the pricer with a cost for missing a deadline.
    pub(crate) fn due(mut self, due: Option<Due>) -> Self {
        let Some(lateness) = due else { return self };
        for bundle in &mut self.inside {
            bundle.cost = lateness.cost(bundle.cost);
        }
        for rings in self.halls.iter_mut().map(|(_, hall)| hall).chain(&mut self.across) {
            rings.due = due;
        }
        Self { due, ..self }
    }

    /// Returns the bundle with the lowest value at `prices` (by type), accurate to `tolerance` of its value;
    /// `None` if the job has no legal bundle. A `hint` close to the answer shortens the search.
    pub(crate) fn cheapest(
        &mut self,
        prices: &[f64],
        tolerance: f64,
        hint: Option<&[u32]>,
    ) -> Option<PricedBundle> {
        let value = |bundle: &Bundle| bundle.cost + price(prices, &bundle.counts);
        let inside = self.inside.iter().map(|bundle| (value(bundle), bundle));
        let inside = inside.min_by(|a, b| a.0.total_cmp(&b.0));
        let mut least = inside.map_or(f64::INFINITY, |(value, _)| value);
        let (mut floor, mut across) = (least, None);
        for rings in self.halls.iter_mut().map(|(_, hall)| hall).chain(&mut self.across) {
            let found = rings.cheapest(prices, tolerance, least, hint);
            floor = floor.min(found.floor);
            if let Some(bundle) = found.bundle {
                least = value(&bundle);
                across = Some(bundle);
            }
        }
        let bundle = across.or_else(|| inside.map(|(_, bundle)| bundle.clone()))?;
        Some(PricedBundle { bundle, value: least, floor })
    }

    /// Returns the best bundle over the network or in a hall with a value below `below`, with its value, and
    /// a lower limit for all such bundles, like [`Self::cheapest`]; `patience` limits the search.
    pub(crate) fn cheapest_across(
        &mut self,
        prices: &[f64],
        (tolerance, patience): (f64, u32),
        below: f64,
        hint: &[u32],
    ) -> (Option<(Bundle, f64)>, f64) {
        let (mut best, mut least, mut floor) = (None, below, f64::INFINITY);
        for rings in self.halls.iter_mut().map(|(_, hall)| hall).chain(&mut self.across) {
            rings.patience = patience;
            let found = rings.cheapest(prices, tolerance, least, Some(hint));
            rings.patience = PATIENCE;
            floor = floor.min(found.floor);
            if let Some(bundle) = found.bundle {
                least = bundle.cost + price(prices, &bundle.counts);
                best = Some((bundle, least));
            }
        }
        (best, floor)
    }

    /// Returns the GPUs of these replicas by type.
    pub(crate) fn gpus<'b>(&self, replicas: &'b [u32]) -> Cow<'b, [u32]> {
        if self.job.replica.is_none() { Cow::Borrowed(replicas) } else { Cow::Owned(self.job.gpus(replicas)) }
    }

    /// Returns the maximum number of replicas by type.
    pub(crate) fn most(&self) -> &[u32] {
        &self.most
    }

    /// Returns all legal bundles that fit on one node, but of halls only single GPUs; also every single
    /// replica if replicas may use any nodes.
    pub(crate) fn inside(&self) -> &[Bundle] {
        &self.inside
    }

    /// Returns the best ring on the `left` GPUs of a node, as far as it fits into a hall, with a value below
    /// `below`; `None` if there is none.
    pub(crate) fn inside_hall(
        &mut self,
        prices: &[f64],
        left: &[u32],
        tolerance: f64,
        below: f64,
    ) -> Option<Bundle> {
        let left = self.job.replicas_in(left);
        let usable = |gpus: &[u32]| left.iter().zip(gpus).map(|(left, most)| *left.min(most)).collect();
        let best = self.halls.iter_mut().filter_map(|(gpus, hall)| {
            let room: Vec<u32> = usable(gpus);
            hall.within_room(prices, &room, tolerance, below)
        });
        let value = |bundle: &Bundle| bundle.cost + price(prices, &bundle.counts);
        best.min_by(|a, b| value(a).total_cmp(&value(b)))
    }

    /// Returns all rings inside halls with a value of at most `limit`, like [`Self::across_within`].
    pub(crate) fn inside_halls_within(
        &mut self,
        prices: &[f64],
        limit: f64,
        most: usize,
    ) -> Option<Vec<Bundle>> {
        let found = self.halls.iter_mut().map(|(_, hall)| hall.within(prices, limit, most));
        found.collect::<Option<Vec<_>>>().map(|bundles| bundles.concat())
    }

    /// Returns a pricer of the same job with another network rate, for rings over the network only.
    pub(crate) fn over(&self, network: f64) -> Self {
        Self {
            job: self.job,
            most: self.most.clone(),
            due: None,
            inside: Vec::new(),
            halls: Vec::new(),
            across: Across::new(self.job, network, &self.most, self.kept),
            kept: self.kept,
        }
        .due(self.due)
    }

    /// Returns the cost of a bundle with a ring with this rate; `None` if the bundle is illegal.
    pub(crate) fn cost(&self, counts: &[u32], ring: f64) -> Option<f64> {
        let ranks: u32 = counts.iter().sum();
        if !(self.job.min_gpus..=self.job.max_gpus).contains(&ranks) {
            return None;
        }
        let compute = cost::compute_time(self.job, counts)?;
        let time = self.job.completion_time(compute + cost::comm_time(self.job, ranks, ring));
        Some(self.due.map_or(time, |due| due.cost(time)))
    }

    /// Returns all rings over the network with a value of at most `limit` at `prices`; `None` if there are
    /// more than `most`, or the search takes too long.
    pub(crate) fn across_within(&mut self, prices: &[f64], limit: f64, most: usize) -> Option<Vec<Bundle>> {
        self.across.as_mut().map_or(Some(Vec::new()), |across| across.within(prices, limit, most))
    }

    /// Returns the best ring over the network within `room` (replicas by type) with a value below `below`.
    pub(crate) fn across_in(
        &mut self,
        prices: &[f64],
        room: &[u32],
        tolerance: f64,
        below: f64,
    ) -> Option<Bundle> {
        self.across.as_mut()?.within_room(prices, room, tolerance, below)
    }
}

/// Returns the price of a bundle.
pub(crate) fn price(prices: &[f64], counts: &[u32]) -> f64 {
    prices.iter().zip(counts).map(|(price, &count)| price * f64::from(count)).sum()
}
