//! The cache of measured speeds: the effect of samples, and merging.

use hsched_engine::store::SpeedFile;
use hsched_model::{Estimates, GpuType, Precision, Seconds, Speed};
use hsched_plan::throughput::{
    Cache, LearnRule, Lesson, MeasuredSpeed, Sample, SampleRefusal, SampleSource, SpeedCell, SpeedKey,
    ThroughputMatrix,
};
use proptest::prelude::*;

const RULE: LearnRule<'_> = LearnRule { weight: 0.3, contributor: "me" };

fn key() -> SpeedKey {
    SpeedKey { model: "m".into(), gpu_type: GpuType::new("t4").expect("a type"), precision: None, gpus: 1 }
}

fn sample(batch: u64, seconds: f64) -> Sample {
    Sample { key: key(), batch, seconds, steps: 100, at: 1e9, source: SampleSource::Report }
}

/// Returns a cache with samples of these batches and times in seconds.
fn seen(samples: &[(u64, f64)]) -> Cache {
    let mut cache = Cache::default();
    for &(batch, seconds) in samples {
        cache.learn(&sample(batch, seconds), RULE);
    }
    cache
}

fn known(cache: &Cache) -> MeasuredSpeed {
    cache.estimate(&key()).expect("a speed")
}

/// Returns the time of a step computed from the true values.
fn step(alpha: f64, beta: f64, batch: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let samples = batch as f64;
    alpha + beta * samples
}

#[track_caller]
fn assert_near(measured: &MeasuredSpeed, expected: f64, batch: u64, tolerance: f64) {
    let time = measured.speed.step(batch, None);
    assert!(
        (time / expected - 1.0).abs() <= tolerance,
        "{time} at {batch}, expected {expected}: {measured:?}"
    );
}

#[test]
fn one_batch_size_gives_a_line_through_the_origin_two_an_affine_one() {
    let one = known(&seen(&[(64, 0.336)]));
    assert_eq!((one.batches, one.count, one.speed.alpha()), (1, 1, 0.0));
    assert_near(&one, 0.672, 128, 1e-9);
    let two = known(&seen(&[(64, 0.336), (128, 0.592)]));
    assert_eq!((two.batches, two.count, two.batch), (2, 2, Some(128)));
    assert!((two.speed.alpha() - 0.08).abs() < 1e-9 && (two.speed.beta() - 0.004).abs() < 1e-9, "{two:?}");
}

#[test]
fn speeds_are_apart_by_model_type_and_precision() {
    let mut cache = seen(&[(64, 0.3)]);
    let half = SpeedKey { precision: Some(Precision::Fp16), ..key() };
    cache.learn(&Sample { key: half.clone(), ..sample(64, 0.1) }, RULE);
    assert_eq!(cache.estimates().map(|(key, _)| key).collect::<Vec<_>>(), [key(), half.clone()]);
    assert_eq!(cache.forget("m", GpuType::new("v100").as_ref()), 0);
    assert_eq!((cache.forget("m", Some(&half.gpu_type)), cache), (2, Cache::default()));
}

#[test]
fn a_stalled_file_system_teaches_nothing() {
    let mut cache = seen(&[(64, 0.3), (64, 0.31), (64, 0.3)]);
    let before = known(&cache);
    for (batch, seconds) in [(64, 3.0), (64, 1.0), (128, 60.0)] {
        let lesson = cache.learn(&sample(batch, seconds), RULE);
        assert!(matches!(lesson, Lesson::Outlier { .. }), "{lesson:?}");
    }
    // An outlier that recurs between steps of the usual length does not change the estimate either.
    for _ in 0..5 {
        cache.learn(&sample(64, 3.0), RULE);
        cache.learn(&sample(64, 0.3), RULE);
    }
    assert_near(&known(&cache), before.speed.step(64, None), 64, 0.02);
}

#[test]
fn three_that_agree_are_a_change() {
    let mut cache = seen(&[(64, 0.3), (64, 0.3), (64, 0.3), (128, 0.5)]);
    cache.learn(&sample(64, 0.6), RULE);
    cache.learn(&sample(64, 0.62), RULE);
    let lesson = cache.learn(&sample(64, 0.61), RULE);
    let Lesson::Learnt { before: Some(_), after } = lesson else { panic!("{lesson:?}") };
    // Records of other batch sizes are outdated.
    assert_eq!(after.batches, 1);
    assert_near(&after, 0.61, 64, 0.01);
}

#[test]
fn a_first_sample_of_a_bad_moment_is_forgotten() {
    let mut cache = seen(&[(128, 0.5), (128, 0.5), (128, 0.5), (64, 0.45)]);
    for _ in 0..3 {
        cache.learn(&sample(64, 0.27), RULE);
    }
    let now = known(&cache);
    assert_eq!(now.batches, 2);
    assert_near(&now, 0.27, 64, 0.01);
    assert_near(&now, 0.5, 128, 0.01);
}

#[test]
fn nonsense_is_refused() {
    let mut cache = seen(&[(64, 0.3)]);
    let before = cache.clone();
    let wrong =
        [(0, 0.3), (64, 0.0), (64, -1.0), (64, f64::NAN), (64, f64::INFINITY), (64, 1e-300), (64, 1e30)];
    for (batch, seconds) in wrong {
        let lesson = cache.learn(&sample(batch, seconds), RULE);
        assert_eq!(lesson, Lesson::Refused(SampleRefusal::Nonsense));
    }
    for other in [Sample { steps: 0, ..sample(64, 0.3) }, Sample { at: f64::NAN, ..sample(64, 0.3) }] {
        assert_eq!(cache.learn(&other, RULE), Lesson::Refused(SampleRefusal::Nonsense));
    }
    assert_eq!(cache, before);
}

#[test]
fn what_epochs_tell_gives_way_to_reports() {
    let epoch = |seconds| Sample { source: SampleSource::Epoch, ..sample(64, seconds) };
    let mut cache = Cache::default();
    cache.learn(&epoch(0.9), RULE);
    assert_eq!(known(&cache).source, SampleSource::Epoch);
    cache.learn(&sample(64, 0.3), RULE);
    assert_near(&known(&cache), 0.3, 64, 1e-9);
    assert_eq!(cache.learn(&epoch(0.9), RULE), Lesson::Refused(SampleRefusal::LessExact));
}

#[test]
fn what_somebody_says_holds_until_it_is_measured() {
    let speed = Speed::affine(Seconds(0.08), Seconds(0.004)).expect("a speed");
    let mut cache = seen(&[(64, 9.0)]);
    cache.set(&key(), speed, 2e9, "me");
    let said = known(&cache);
    assert_eq!((said.speed, said.count, said.source), (speed, 0, SampleSource::User));
    assert!(matches!(cache.learn(&sample(64, 3.0), RULE), Lesson::Outlier { .. }));
    assert!(matches!(cache.learn(&sample(64, 0.4), RULE), Lesson::Learnt { .. }));
    assert_near(&known(&cache), 0.4, 64, 1e-9);
}

#[test]
fn the_cache_comes_before_the_job_file() {
    let text = "jobs: [{name: a, model: m, samples_per_epoch: 10, epochs: 1, global_batch: 8, model_size: 0, \
                command: x, throughput: {t4: 100, tesla_v100: 3}}]";
    let jobs = hsched_model::formats::jobs::parse(text).expect("a job");
    let types: Vec<GpuType> = ["t4", "v100"].into_iter().filter_map(GpuType::new).collect();
    let speeds = |cache: &Cache| {
        let matrix = ThroughputMatrix::new(&jobs, &types, cache, Estimates::Off);
        format!("{:?}", matrix.row(0))
    };
    let cache = seen(&[(64, 0.32)]);
    let text = speeds(&cache);
    assert!(text.contains("t4: 200 samples/s measured, used instead of the job file's 100"), "{text}");
    assert!(speeds(&seen(&[(64, 0.65)])).contains("remarks: []"));
    // A measurement with another precision does not count for the job.
    let mut other = Cache::default();
    let key = SpeedKey { precision: Some(Precision::Fp32), ..key() };
    other.learn(&Sample { key, ..sample(64, 0.32) }, RULE);
    assert_eq!(speeds(&other), speeds(&Cache::default()));
}

#[test]
fn one_batch_size_leaves_the_fixed_part_of_a_step_to_the_job_file() {
    let text = "jobs: [{name: a, model: m, samples_per_epoch: 10, epochs: 1, global_batch: 8, model_size: 0, \
                command: x, throughput: {t4: {alpha_ms: 80, beta_ms: 2}}}]";
    let jobs = hsched_model::formats::jobs::parse(text).expect("a job");
    let step = |cache: &Cache, batch| {
        let matrix = ThroughputMatrix::new(&jobs, &[key().gpu_type], cache, Estimates::Off);
        let SpeedCell::Known(known) = &matrix.row(0)[0] else { panic!("{matrix:?}") };
        known.speed.step(batch, None)
    };
    let near = |actual: f64, expected: f64| (actual / expected - 1.0).abs() < 1e-9;
    // The job file says 160 ms for 40 samples; all steps take twice as long.
    let one = seen(&[(40, 0.32)]);
    assert!(near(step(&one, 40), 0.32) && near(step(&one, 10), 0.2), "{one:?}");
    let two = seen(&[(40, 0.32), (80, 0.48)]);
    assert!(near(step(&two, 40), 0.32) && near(step(&two, 10), 0.2), "{two:?}");
    let other = seen(&[(40, 0.32), (80, 0.62)]);
    assert!(near(step(&other, 10), 0.095), "{other:?}");
}

/// Returns samples by one of three contributors, of one of two types.
fn any_sample() -> impl Strategy<Value = (usize, Sample)> {
    let gpu_type = prop_oneof![Just("t4"), Just("v100")];
    let source =
        prop_oneof![Just(SampleSource::Report), Just(SampleSource::Epoch), Just(SampleSource::Probe)];
    (0..3_usize, gpu_type, 1..6_u64, 0.01..10.0_f64, 1..9_u64, source).prop_map(
        |(who, gpu_type, batch, seconds, steps, source)| {
            let key = SpeedKey { gpu_type: GpuType::new(gpu_type).expect("a type"), ..key() };
            (who, Sample { key, steps, source, ..sample(batch, seconds) })
        },
    )
}

fn merged(caches: &[&Cache]) -> Cache {
    let mut all = Cache::default();
    for cache in caches {
        all.merge(cache);
    }
    all
}

proptest! {
    #[test]
    fn the_order_of_merging_does_not_matter(samples in prop::collection::vec(any_sample(), 0..60)) {
        // Two states of the first contributor, and one of each other contributor.
        let mut caches = vec![Cache::default(); 3];
        let mut early = Cache::default();
        for (number, (who, sample)) in samples.iter().enumerate() {
            let contributor = ["a", "b", "c"][*who];
            caches[*who].learn(sample, LearnRule { weight: 0.3, contributor });
            if number == samples.len() / 2 {
                early = caches[0].clone();
            }
        }
        let [a, b, c] = [&caches[0], &caches[1], &caches[2]];
        let all = merged(&[a, b, c, &early]);
        prop_assert_eq!(&all, &merged(&[&early, c, b, a]));
        prop_assert_eq!(&all, &merged(&[&merged(&[a, b]), &merged(&[&early, c])]));
        prop_assert_eq!(&all, &merged(&[&all, &all, b]));
        // No data are lost: the last record of every contributor is present.
        for (key, contributor, record) in caches.iter().flat_map(Cache::records) {
            prop_assert!(all.records().any(|other| other == (key.clone(), contributor, record)));
        }
    }

    #[test]
    fn files_read_back_as_they_were(samples in prop::collection::vec(any_sample(), 0..40), said in 0.1..1e6_f64) {
        let mut cache = Cache::default();
        for (who, sample) in &samples {
            cache.learn(sample, LearnRule { weight: 0.3, contributor: ["a", "b,\" ", "ü"][*who] });
        }
        let speed = Speed::affine(Seconds(said), Seconds(said / 3.0)).expect("a speed");
        cache.set(&SpeedKey { precision: Some(Precision::Bf16), ..key() }, speed, said, "a");
        let file = SpeedFile { contributor: "a".into(), cache, saves: 0 };
        prop_assert_eq!(SpeedFile::parse(&file.to_json()).expect("reads"), file.clone());
        let table = SpeedFile::parse_csv(&file.to_csv().expect("writes")).expect("reads");
        prop_assert!(table.estimates().eq(file.cache.estimates()));
    }

    #[test]
    fn no_text_of_speeds_panics(text in "\\PC{0,200}", from in 0..400_usize, with in "[-0-9a-z\"{}:,.]{0,3}") {
        let mut file = SpeedFile { contributor: "a".into(), cache: seen(&[(64, 0.3), (64, 3.0), (128, 0.5)]), saves: 0 }.to_json();
        let from = from.min(file.len());
        file.replace_range(from..file.len().min(from + 1), &with);
        for text in [&text, &file] {
            let _any = (SpeedFile::parse(text).is_ok(), SpeedFile::parse_csv(text).is_ok());
        }
    }

    #[test]
    fn estimates_come_near_the_truth_under_noise_and_outliers(
        alpha in 0.0..0.2_f64,
        beta in 1e-4..1e-2_f64,
        noise in prop::collection::vec(-0.03..0.03_f64, 120),
        (stall, first) in (2.0..20.0_f64, 0..20_usize),
    ) {
        let mut cache = Cache::default();
        let batches = [32, 64, 128, 256];
        for (number, noise) in noise.iter().enumerate() {
            let batch = batches[number % batches.len()];
            let stalled = if number % 20 == first { stall } else { 1.0 };
            cache.learn(&sample(batch, step(alpha, beta, batch) * (1.0 + noise) * stalled), RULE);
        }
        let known = known(&cache);
        for batch in [32, 100, 256] {
            let off = known.speed.step(batch, None) / step(alpha, beta, batch) - 1.0;
            prop_assert!(off.abs() < 0.04, "{off} at {batch}: {known:?}");
        }
        // The slope is as accurate as the noise allows over an eightfold range.
        let scale = step(alpha, beta, 256) / 256.0;
        prop_assert!((known.speed.beta() - beta).abs() < 0.06 * scale, "{known:?}");
        prop_assert!(known.error < 0.04, "{known:?}");
    }

    #[test]
    fn a_change_of_speed_is_followed_within_a_few_samples(
        change in prop_oneof![0.1..0.95_f64, 1.05..10.0_f64],
        noise in prop::collection::vec(-0.02..0.02_f64, 40),
    ) {
        let mut cache = Cache::default();
        for (number, noise) in noise.iter().enumerate() {
            let factor = if number < 20 { 1.0 } else { change };
            let batch = [64, 128][number % 2];
            cache.learn(&sample(batch, factor * step(0.05, 0.004, batch) * (1.0 + noise)), RULE);
        }
        let known = known(&cache);
        for batch in [64, 128] {
            let off = known.speed.step(batch, None) / (change * step(0.05, 0.004, batch)) - 1.0;
            prop_assert!(off.abs() < 0.05, "{off} at {batch} after a change by {change}: {known:?}");
        }
    }

    #[test]
    fn no_sample_makes_an_impossible_speed(
        samples in prop::collection::vec((any::<u64>(), any::<f64>(), any::<u64>(), any::<f64>()), 0..20),
        weight in any::<f64>(),
    ) {
        let mut cache = Cache::default();
        for (batch, seconds, steps, at) in samples {
            cache.learn(&Sample { batch, seconds, steps, at, ..sample(1, 1.0) }, LearnRule { weight, ..RULE });
            if let Some(known) = cache.estimate(&key()) {
                prop_assert!(Speed::affine(Seconds(known.speed.alpha()), Seconds(known.speed.beta())).is_some());
                prop_assert!(known.error.is_finite() && known.error > 0.0);
            }
        }
    }
}

#[test]
fn a_replica_of_four_says_nothing_of_one_of_two() {
    let mut cache = Cache::default();
    let speed = Speed::rate(400.0).expect("a speed");
    cache.set(&SpeedKey { gpus: 4, ..key() }, speed, 1.0, "a");
    let text = "jobs: [{name: j, model: m, samples_per_epoch: 100, epochs: 1, global_batch: 8, model_size: 0, \
                command: x, throughput: {v100: 9}";
    let cell = |more: &str| {
        let jobs = hsched_model::formats::jobs::parse(&format!("{text}{more}}}]")).expect("a job");
        let matrix = ThroughputMatrix::new(&jobs, &[key().gpu_type], &cache, Estimates::All);
        matrix.row(0)[0].clone()
    };
    let measured = |cell: SpeedCell| match cell {
        SpeedCell::Known(known) => matches!(known.source, hsched_plan::throughput::SpeedOrigin::Measured(_)),
        SpeedCell::Unusable(_) => false,
    };
    assert!(measured(cell(", replica: {gpus: 4}")) && measured(cell(", replica: {gpus: {t4: 4, v100: 2}}")));
    assert!(
        !measured(cell(", replica: {gpus: 2}")) && !measured(cell(", replica: {gpus: {t4: 2, v100: 4}}"))
    );
    assert!(!measured(cell("")) && !measured(cell(", replica: {gpus: 1}")));
    // The speeds are unchanged after a round trip through JSON and through CSV.
    let file = SpeedFile { contributor: "a".to_owned(), cache, saves: 0 };
    assert_eq!(SpeedFile::parse(&file.to_json()).expect("a file").cache, file.cache);
    assert_eq!(SpeedFile::parse_csv(&file.to_csv().expect("a table")).expect("a table"), file.cache);
}
