//! A simulated site is learnt from hourly looks: its intervals hold, and a biased simulation is corrected.

use std::collections::BTreeMap;

use hsched_model::{GpuType, Seconds, Time};
use hsched_queue::learnt::{SeenJob, SiteLog, SiteModel};
use hsched_queue::{
    Asks, Estimate, FurtherOptions, GpuAsk, HeldNodes, QueueJob, Request, RequestId, Snapshot,
};

const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
const STEP: f64 = 600.0;
const GPUS: u32 = 24;
const USERS: usize = 7;
const OWN: usize = 0;

/// Returns a number for a name, as a store would.
fn number(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        let mixed = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        mixed ^ (mixed >> 29)
    })
}

/// Numbers from [0, 1).
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 40).expect("24 bits")) / f64::from(1_u32 << 24)
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        let count = f64::from(u32::try_from(list.len()).expect("few"));
        let place = self.unit() * count;
        let kept = (1_u32..).zip(list).find(|(number, _)| place < f64::from(*number));
        kept.map_or(list[0], |(_, item)| *item)
    }
}

#[derive(Clone, Debug)]
struct Job {
    id: usize,
    user: usize,
    gpus: u32,
    limit: f64,
    run: f64,
    submitted: f64,
    started: Option<f64>,
}

/// A cluster with one GPU type whose users take turns in priority; its load varies between days.
struct Site {
    random: Random,
    now: f64,
    jobs: Vec<Job>,
    /// Jobs in the queue.
    queue: Vec<usize>,
    favour: Vec<f64>,
    load: f64,
}

impl Site {
    fn new(seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Self { random, now: 0.0, jobs: Vec::new(), queue: Vec::new(), favour: vec![0.0; USERS], load: 1.0 }
    }

    /// Advances by ten minutes; returns the user's jobs submitted in that time.
    fn step(&mut self) -> Vec<usize> {
        let is_new_day = (self.now / DAY).fract() < STEP / DAY;
        if is_new_day {
            self.load = 0.6 + 0.75 * self.random.unit();
            for favour in &mut self.favour {
                *favour = 0.7 * *favour + 12.0 * HOUR * (self.random.unit() - 0.5);
            }
        }
        self.now += STEP;
        let now = self.now;
        self.queue
            .retain(|job| self.jobs[*job].started.is_none_or(|started| started + self.jobs[*job].run > now));
        let mut waits = Vec::new();
        for user in 0..USERS {
            let often = if user == OWN { 0.16 } else { 0.075 * self.load };
            if self.random.unit() < often {
                waits.extend(self.submit(user));
            }
        }
        self.pass();
        waits
    }

    fn submit(&mut self, user: usize) -> Option<usize> {
        let id = self.jobs.len();
        let limit = HOUR * self.random.one_of(&[1.0, 4.0, 12.0, 24.0]);
        let gpus = self.random.one_of(&[1, 1, 1, 2, 4]);
        let (gpus, limit) = if user == OWN { (gpus.min(2), limit.min(4.0 * HOUR)) } else { (gpus, limit) };
        let run = limit * self.random.unit();
        self.jobs.push(Job { id, user, gpus, limit, run, submitted: self.now, started: None });
        self.queue.push(id);
        (user == OWN).then_some(id)
    }

    /// Starts jobs in priority order while there is room; short ones are backfilled.
    fn pass(&mut self) {
        let held: u32 = self
            .queue
            .iter()
            .map(|job| &self.jobs[*job])
            .filter(|job| job.started.is_some())
            .map(|job| job.gpus)
            .sum();
        let mut free = GPUS - held;
        let rank = |job: &Job| self.favour[job.user] - job.submitted;
        let mut waiting: Vec<usize> =
            self.queue.iter().copied().filter(|job| self.jobs[*job].started.is_none()).collect();
        waiting.sort_by(|a, b| rank(&self.jobs[*b]).total_cmp(&rank(&self.jobs[*a])));
        let mut is_held_up = false;
        for id in waiting {
            let job = &mut self.jobs[id];
            if job.gpus <= free && (!is_held_up || job.limit <= 1.5 * HOUR) {
                free -= job.gpus;
                job.started = Some(self.now);
            } else {
                is_held_up = true;
            }
        }
    }

    /// Returns the snapshot that Slurm would show.
    fn snapshot(&self, hides_others: bool) -> Snapshot {
        let shown = self.queue.iter().map(|job| &self.jobs[*job]);
        let shown = shown.filter(|job| !hides_others || job.user == OWN);
        let jobs = shown.map(|job| QueueJob {
            id: job.id.to_string(),
            ours: job.user == OWN,
            user: Some(format!("u{}", job.user)),
            submitted: Some(Time(job.submitted)),
            limit_s: Some(Seconds(job.limit)),
            asks: asks(job.gpus),
            running: job.started.map(|since| HeldNodes { since: Time(since), holds: Vec::new() }),
            ..QueueJob::default()
        });
        Snapshot {
            jobs: jobs.collect(),
            others_hidden: hides_others,
            user: Some(format!("u{OWN}")),
            ..Snapshot::empty(Time(self.now))
        }
    }
}

fn asks(gpus: u32) -> Asks {
    let gpus = vec![GpuAsk { gpu_type: GpuType::new("a100"), count: gpus }];
    Asks { gpus, ..Asks::default() }
}

fn request(job: &Job) -> Request {
    Request {
        id: RequestId::default(),
        asks: asks(job.gpus),
        partition: None,
        account: None,
        limit: Seconds(job.limit),
        run: Seconds(job.run),
        further: FurtherOptions::default(),
    }
}

/// A snapshot, and the reason for it.
struct Look {
    snapshot: Snapshot,
    /// A job that the user submits at that time; `None` at the full hour.
    submits: Option<usize>,
}

/// Returns looks at a site over three weeks after a first one: one each hour, and one before each of the
/// user's jobs of the third week.
fn recording(seed: u64, hides_others: bool) -> (Vec<Look>, Vec<Job>) {
    let mut site = Site::new(seed);
    let mut looks = Vec::new();
    let (first, third, end) = (7.0 * DAY, 21.0 * DAY, 28.0 * DAY);
    while site.now < end {
        if site.now >= first && (site.now / HOUR).fract() < 0.01 {
            looks.push(Look { snapshot: site.snapshot(hides_others), submits: None });
        }
        let new = site.step();
        for job in new.into_iter().filter(|_| site.now > third) {
            let mut snapshot = site.snapshot(hides_others);
            snapshot.jobs.retain(|other| other.id != job.to_string());
            looks.push(Look { snapshot, submits: Some(job) });
        }
    }
    while site.jobs.iter().any(|job| job.submitted < end && job.started.is_none()) {
        site.step();
    }
    (looks, site.jobs)
}

/// A simulation: returns its estimate for a job at a given time.
type Player<'a> = &'a dyn Fn(&Job, f64) -> Option<Estimate>;

/// The learnt estimate for a job of the third week, and its actual wait in seconds.
struct EstimatedWait {
    learnt: Estimate,
    wait: f64,
}

/// Returns estimates for the third week, from a model trained on at least two weeks of looks, and the last
/// model.
fn estimates(
    looks: &[Look],
    jobs: &[Job],
    player: Player,
    relearnt_after: f64,
) -> (Vec<EstimatedWait>, SiteModel) {
    let keys: BTreeMap<u64, usize> = jobs.iter().map(|job| (number(&job.id.to_string()), job.id)).collect();
    let (mut log, mut settled): (SiteLog, Vec<SeenJob>) = (SiteLog::default(), Vec::new());
    let (mut model, mut next_lesson): (Option<SiteModel>, f64) = (None, 21.0 * DAY);
    let mut list = Vec::new();
    for Look { snapshot, submits } in looks {
        let now = snapshot.taken_at.0;
        let Some(job) = submits else {
            settled.extend(log.observe(snapshot, &number));
            for key in log.without_estimate().collect::<Vec<u64>>() {
                if let Some(estimate) = player(&jobs[keys[&key]], now) {
                    log.set_player(key, &estimate);
                }
            }
            if now >= next_lesson {
                next_lesson += relearnt_after;
                model = SiteModel::learn(&log, &settled, None, 1);
            }
            continue;
        };
        let job = &jobs[*job];
        let model = model.as_ref().expect("two weeks teach enough");
        let learnt = model.estimates(snapshot, &[request(job)], &[player(job, now)], &number)[0];
        list.push(EstimatedWait { learnt, wait: job.started.expect("it started") - job.submitted });
    }
    (list, model.expect("two weeks teach enough"))
}

#[test]
fn the_interval_holds_where_other_users_jobs_are_hidden() {
    let (mut held, mut all) = (0_u32, 0_u32);
    for seed in [1, 2, 3] {
        let (looks, jobs) = recording(seed, true);
        let (list, _) = estimates(&looks, &jobs, &|_, _| None, 3.5 * DAY);
        // A pass occurs every ten minutes.
        let is_held =
            |told: &&EstimatedWait| (told.learnt.low.0 - STEP..=told.learnt.high.0).contains(&told.wait);
        held += u32::try_from(list.iter().filter(is_held).count()).expect("few");
        all += u32::try_from(list.len()).expect("few");
    }
    let part = f64::from(held) / f64::from(all);
    assert!(all > 300 && (0.75..=0.85).contains(&part), "{held} of {all}");
}

/// Returns the mean distance of the learnt medians from waits over 10 min, as a logarithm, and whether the
/// model is used, if a simulation is wrong by a factor.
fn corrected(factor: f64) -> (f64, bool) {
    let (looks, jobs) = recording(4, false);
    let player = |job: &Job, now: f64| {
        // Wrong by a factor of 1.25, up or down.
        let noise = if job.id.is_multiple_of(2) { 1.25 } else { 0.8 };
        let wait = (job.started? - now) * factor * noise;
        let [low, median, high, mean] = [0.5, 1.0, 2.0, 1.0].map(|part| Seconds(part * wait));
        Some(Estimate { low, median, high, mean })
    };
    let (list, model) = estimates(&looks, &jobs, &player, 7.0 * DAY);
    let waited = list.iter().filter(|told| told.wait > STEP);
    let errors: Vec<f64> = waited.map(|told| (told.learnt.median.0 / told.wait).log10().abs()).collect();
    let count = f64::from(u32::try_from(errors.len()).expect("few"));
    assert!(count > 50.0, "{count}");
    (errors.iter().sum::<f64>() / count, model.is_used(false))
}

#[test]
fn a_player_that_is_wrong_by_a_factor_of_three_is_corrected() {
    let (error, is_used) = corrected(1.0 / 3.0);
    // The logarithm of a factor of three is 0.48.
    assert!(is_used && error < 0.2, "{error} {is_used}");
}

#[test]
fn a_player_that_is_right_is_used() {
    let (error, is_used) = corrected(1.0);
    assert!(!is_used && error < 0.2, "{error} {is_used}");
}
