//! Lets jobs on nodes exchange GPUs as long as that lowers their total cost.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::optimal::layout::RingPlacement;
use crate::optimal::many::catalogue::rent;
use crate::optimal::many::nodes::OnNodes;
use hsched_model::number::{to_f64, to_usize};

/// Number of consecutive unsuccessful exchanges, per job, after which exchanges end.
const VAIN: usize = 400;

/// The corresponding number per ten jobs if there are replicas of several GPUs: they leave larger gaps, which
/// exchanges cannot close. An exchange that gains no more than `LEAST_GAIN` of the total cost then also
/// counts as unsuccessful.
const VAIN_OF_REPLICAS: usize = 7;
const LEAST_GAIN: f64 = 1e-5;

/// If there are replicas of several GPUs, one job of each exchange is among the 1/`FAR_PART` of all jobs that
/// pay most beyond their best choice. These jobs are determined again after `FAR_EVERY` exchanges.
const FAR_PART: usize = 30;
const FAR_EVERY: usize = 200;

/// Number of a job's best bundles that it may wish for, and of nodes or other jobs examined for it.
const WISHES: usize = 12;
const LOOKS: usize = 32;

/// Maximum number of jobs that leave a node to make room for another job.
const MOST_LEAVING: usize = 4;

/// Number of exchanges between two calls to `stop`.
const STRIDE: usize = 16;

/// The bundle that a job gets in an exchange.
#[derive(Clone, Copy)]
enum Wish<'a> {
    /// The fastest bundle that fits.
    Fastest,
    /// The best at these prices.
    At(&'a [f64]),
    /// This bundle of its list.
    Bundle(u32),
}

impl OnNodes<'_, '_> {
    /// Lets jobs exchange GPUs until the total cost of all jobs is at most `enough`, many exchanges have
    /// failed, or `stop` returns true.
    pub(crate) fn exchange(&mut self, enough: f64, seed: u64, stop: &dyn Fn() -> bool) {
        let jobs = self.places.len();
        let mut value: f64 =
            self.places.iter().zip(self.weights).map(|(place, weight)| weight * place.cost).sum();
        let mut random = Pcg64::seed_from_u64(seed);
        for job in 0..jobs {
            value += self.renew(&[(job, Wish::Fastest)]);
        }
        let has_replicas = self.has_replicas();
        let (most_vain, least) = if has_replicas {
            ((VAIN_OF_REPLICAS * jobs).div_ceil(10), LEAST_GAIN)
        } else {
            (VAIN * jobs, 0.0)
        };
        let (mut vain, mut tries) = (0, 0_usize);
        let (mut far, mut holders) = (Vec::new(), Vec::new());
        while value > enough && vain < most_vain && jobs > 1 {
            tries += 1;
            if tries.is_multiple_of(STRIDE) && stop() {
                return;
            }
            if has_replicas && tries % FAR_EVERY == 1 {
                far = self.farthest(jobs.div_ceil(FAR_PART));
                holders = self.holders();
            }
            let a = if has_replicas { far[any(&mut random, far.len())] } else { any(&mut random, jobs) };
            let change = if has_replicas && tries.is_multiple_of(2) {
                self.take_over(a, &holders, &mut random)
            } else {
                let b = any(&mut random, jobs);
                if a == b {
                    continue;
                }
                let about: Vec<f64> =
                    self.prices.iter().map(|price| price * (0.5 + 1.2 * random.random::<f64>())).collect();
                self.renew(&[(a, Wish::At(&about)), (b, Wish::Fastest)])
            };
            value += change;
            vain = if change < -least * value { 0 } else { vain + 1 };
        }
    }

    /// Gives a job one of its best bundles and places the jobs in its way elsewhere, if that lowers the cost;
    /// returns the change of the cost.
    fn take_over(&mut self, job: usize, holders: &[Vec<usize>], random: &mut Pcg64) -> f64 {
        let Some((others, bundle)) = self.rivals(job, holders, random) else { return 0.0 };
        let mut wishes = vec![(job, Wish::Bundle(bundle))];
        wishes.extend(others.into_iter().map(|other| (other, Wish::At(self.prices))));
        // The last job gets the fastest bundle that still fits.
        if let Some((_, wish)) = wishes[1..].last_mut() {
            *wish = Wish::Fastest;
        }
        self.renew(&wishes)
    }

    /// Returns this many jobs that pay most beyond their best choice at the market's prices.
    fn farthest(&mut self, count: usize) -> Vec<usize> {
        let mut regrets: Vec<(f64, usize)> =
            (0..self.places.len()).map(|job| (self.regret(job), job)).collect();
        regrets.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        regrets.into_iter().take(count).map(|(_, job)| job).collect()
    }

    /// Returns a good bundle for a job, and the other jobs whose departure makes room for it: on a random
    /// node if the bundle needs several GPUs on one node. `None` if none is found.
    fn rivals(&self, job: usize, holders: &[Vec<usize>], random: &mut Pcg64) -> Option<(Vec<usize>, u32)> {
        let near = &self.near[self.kind_of[job]];
        let bundle = near[any(random, near.len().min(WISHES))];
        let number = self.list(job).bundles[bundle as usize];
        let counts = self.kinds.catalogue.counts(number);
        let (model, wanted) = (self.pricers[job].job, self.pricers[job].gpus(counts));
        let gpu_type = (0..counts.len()).max_by_key(|&ty| wanted[ty])?;
        let is_inside = self.kinds.catalogue.is_inside(number);
        let need = if is_inside { wanted[gpu_type] } else { model.block(gpu_type) };
        let mut others = Vec::new();
        if is_inside || model.needs_blocks() {
            let found = (0..LOOKS).find_map(|_| {
                let node = any(random, holders.len());
                self.leaving((node, gpu_type), &holders[node], need, job)
            });
            others = found?;
        }
        let given = |job: usize| self.places[job].gpus[gpu_type];
        let freed: u32 = others.iter().map(|&other| given(other)).sum();
        let missing = wanted[gpu_type].saturating_sub(self.layout.room[gpu_type] + given(job) + freed);
        if missing > 0 {
            let is_enough =
                |&other: &usize| other != job && given(other) >= missing && !others.contains(&other);
            others.push((0..LOOKS).map(|_| any(random, self.places.len())).find(is_enough)?);
        }
        Some((others, bundle))
    }

    /// Returns a few of a node's holders whose departure leaves this many GPUs of a type free there.
    fn leaving(
        &self,
        (node, gpu_type): (usize, usize),
        holders: &[usize],
        need: u32,
        job: usize,
    ) -> Option<Vec<usize>> {
        let mut free = self.layout.nodes()[node][gpu_type] + self.held(job, node, gpu_type);
        let mut leaving = Vec::new();
        for &other in holders.iter().filter(|&&other| other != job) {
            if free >= need {
                break;
            }
            let held = self.held(other, node, gpu_type);
            if held > 0 {
                free += held;
                leaving.push(other);
            }
        }
        (free >= need && leaving.len() <= MOST_LEAVING).then_some(leaving)
    }

    /// Returns how much more a job's placement costs than its best choice at the market's prices.
    fn regret(&mut self, job: usize) -> f64 {
        if let Some(known) = self.regrets[job] {
            return known;
        }
        let kind = self.kind_of[job];
        if self.near[kind].is_empty() {
            self.near[kind] = self.nearest(kind);
        }
        let (list, catalogue) = (self.list(job), &self.kinds.catalogue);
        let best = self.near[kind].first().map_or(0.0, |&place| {
            let uses = catalogue.uses(list.bundles[place as usize]);
            self.scale(job) * list.costs[place as usize] + rent(uses, self.prices)
        });
        let place = &self.places[job];
        let replicas = self.pricers[job].job.replicas_in(&place.gpus);
        let uses = catalogue.used(self.pricers[job].job, &replicas, place.node.is_some());
        let paid: f64 = uses.zip(self.prices).map(|(count, price)| count * price).sum();
        let regret = self.weights[job] * place.cost + paid - best;
        self.regrets[job] = Some(regret);
        regret
    }

    /// Places jobs again one by one, each as it wishes, and reverts if that does not lower their cost;
    /// returns the change of the cost.
    fn renew(&mut self, jobs: &[(usize, Wish<'_>)]) -> f64 {
        let before: Vec<RingPlacement> = jobs.iter().map(|(job, _)| self.places[*job].clone()).collect();
        for place in &before {
            self.layout.give_back(place);
        }
        let mut change = 0.0;
        let mut placed = 0;
        for (&(job, wish), before) in jobs.iter().zip(&before) {
            let place = match wish {
                Wish::Fastest => self.best_place(job, None),
                Wish::At(prices) => self.best_place(job, Some(prices)),
                Wish::Bundle(bundle) => {
                    self.fits(job, bundle).then(|| self.place(job, bundle as usize)).flatten()
                }
            };
            let Some(place) = place else { break };
            change += self.weights[job] * (place.cost - before.cost);
            self.put(job, place);
            placed += 1;
        }
        let scale: f64 =
            jobs.iter().zip(&before).map(|((job, _), place)| self.weights[*job] * place.cost).sum();
        if placed == jobs.len() && change < -1e-9 * scale {
            return change;
        }
        for (job, _) in &jobs[..placed] {
            self.layout.give_back(&self.places[*job]);
        }
        for ((job, _), place) in jobs.iter().zip(before) {
            self.put(*job, place);
        }
        0.0
    }
}

/// Returns a random number below `count`.
fn any(random: &mut Pcg64, count: usize) -> usize {
    to_usize(random.random::<f64>() * to_f64(count)).min(count - 1)
}
