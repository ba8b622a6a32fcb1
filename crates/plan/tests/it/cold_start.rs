//! Estimates of unmeasured speeds: rules on tiny tables, and errors on published ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hsched_model::{Estimates, GpuType, Job, Precision, Speed};
use hsched_plan::throughput::{
    Cache, LearnRule, Method, Sample, SampleSource, SpeedCell, SpeedEstimate, SpeedKey, SpeedOrigin,
    ThroughputMatrix,
};

fn gpu(name: &str) -> GpuType {
    GpuType::new(name).expect("a type")
}

fn key(model: &str, gpu_type: &str) -> SpeedKey {
    SpeedKey { model: model.into(), gpu_type: gpu(gpu_type), precision: None, gpus: 1 }
}

/// Returns a cache with rates by model and type.
fn cache(rates: &[(&str, &str, f64)]) -> Cache {
    let mut cache = Cache::default();
    for &(model, gpu_type, rate) in rates {
        learn(&mut cache, &key(model, gpu_type), 100, rate);
    }
    cache
}

fn learn(cache: &mut Cache, key: &SpeedKey, batch: u64, rate: f64) {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let seconds = batch as f64 / rate;
    let source = SampleSource::Report;
    let sample = Sample { key: key.clone(), batch, seconds, steps: 1, at: 0.0, source };
    cache.learn(&sample, LearnRule { weight: 0.3, contributor: "me" });
}

fn job(model: &str, throughput: &str) -> Job {
    let text = format!(
        "jobs: [{{name: a, model: {model}, samples_per_epoch: 10, epochs: 1, global_batch: 100, model_size: 0, \
         command: x, throughput: {{{throughput}}}}}]"
    );
    hsched_model::formats::jobs::parse(&text).expect("a job").remove(0)
}

fn estimate(job: &Job, gpu_type: &str, cache: &Cache, which: Estimates) -> Option<(Speed, SpeedEstimate)> {
    let matrix = ThroughputMatrix::new(std::slice::from_ref(job), &[gpu(gpu_type)], cache, which);
    match matrix.row(0).first() {
        Some(SpeedCell::Known(known)) => match &known.source {
            SpeedOrigin::Estimated(estimate) => Some((known.speed, estimate.clone())),
            other => panic!("{other:?} is no estimate"),
        },
        _ => None,
    }
}

#[test]
fn ratios_of_two_measured_models_scale_a_third() {
    let known = job("new", "v100: 1000");
    let two = cache(&[("a", "v100", 100.0), ("a", "t4", 40.0), ("b", "v100", 10.0), ("b", "t4", 4.0)]);
    let (speed, origin) = estimate(&known, "t4", &two, Estimates::Learnt).expect("an estimate");
    assert_eq!((origin.method, origin.from), (Method::Ratios { models: 2 }, gpu("v100")));
    // The estimate lies between the other models' ratio, 400, and the table of GPUs.
    let rate = speed.rate_at(1.0);
    assert!((400.0..500.0).contains(&rate), "{rate}");
    // More models with similar ratios give a smaller error.
    let many: Vec<(String, f64)> = (0..20).map(|number| (format!("m{number}"), 10.0)).collect();
    let many: Vec<(&str, &str, f64)> = many
        .iter()
        .flat_map(|(name, rate)| [(name.as_str(), "v100", *rate), (name, "t4", 0.4 * rate)])
        .collect();
    let (speed, surer) = estimate(&known, "t4", &cache(&many), Estimates::Learnt).expect("an estimate");
    assert!(
        surer.error < 0.5 * origin.error && (speed.rate_at(1.0) - 400.0).abs() < 20.0,
        "{surer:?} {speed}"
    );
}

#[test]
fn speeds_of_job_files_are_not_measured() {
    let jobs = [job("new", "v100: 1000"), job("a", "v100: 100"), job("b", "v100: 10")];
    let measured_on_one = cache(&[("a", "t4", 40.0), ("b", "t4", 4.0)]);
    let cell = |which| {
        let matrix = ThroughputMatrix::new(&jobs, &[gpu("t4")], &measured_on_one, which);
        matches!(matrix.row(0).first(), Some(SpeedCell::Known(_)))
    };
    assert!(!cell(Estimates::Learnt) && cell(Estimates::All));
}

#[test]
fn nothing_is_guessed_unasked() {
    let known = job("new", "v100: 1000");
    let one = cache(&[("a", "v100", 100.0), ("a", "t4", 40.0)]);
    for too_little in [&Cache::default(), &one] {
        assert_eq!(estimate(&known, "t4", too_little, Estimates::Learnt), None);
        assert_eq!(estimate(&known, "t4", too_little, Estimates::Off), None);
    }
    let (speed, origin) = estimate(&known, "t4", &Cache::default(), Estimates::All).expect("an estimate");
    assert_eq!(origin.method, Method::GpuTable);
    assert!((300.0..700.0).contains(&speed.rate_at(1.0)) && origin.error > 0.4, "{speed} {origin:?}");
    // There is no estimate for a job without any speed, or for an unknown type.
    assert_eq!(estimate(&job("new", ""), "t4", &one, Estimates::All), None);
    assert_eq!(estimate(&known, "fpga", &one, Estimates::All), None);
}

#[test]
fn the_form_of_the_step_time_is_kept() {
    let known = job("new", "v100: {alpha_ms: 20, beta_ms: 1}");
    let (speed, _) = estimate(&known, "t4", &Cache::default(), Estimates::All).expect("an estimate");
    assert!((speed.alpha() / speed.beta() - 20.0).abs() < 1e-9, "{speed}");
}

#[test]
fn rates_of_one_model_are_compared_at_one_batch() {
    let jobs = |a: &str, b: &str| {
        let job = |(name, model, batch, throughput): (&str, &str, u64, &str)| {
            format!(
                "  - {{name: {name}, model: {model}, samples_per_epoch: 10, epochs: 1, global_batch: {batch}, \
                 model_size: 0, command: x, throughput: {{{throughput}}}}}\n"
            )
        };
        let list = [("a", "m", 10, a), ("b", "m", 1000, b), ("new", "new", 100, "v100: 1000")].map(job);
        hsched_model::formats::jobs::parse(&format!("jobs:\n{}", list.concat())).expect("jobs")
    };
    let estimated = |jobs: &[Job], cache: &Cache| {
        let matrix = ThroughputMatrix::new(jobs, &[gpu("t4")], cache, Estimates::All);
        let [SpeedCell::Known(known)] = matrix.row(2) else { panic!("no estimate") };
        known.speed.rate_at(100.0)
    };
    let check = |rate: f64, expected: f64| assert!((rate / expected - 1.0).abs() < 1e-9, "{rate} {expected}");
    // Both types are equally fast, but the rate is 0.5/s at a batch of 10, and 0.99/s at 1000.
    let (v100, t4) = ("v100: {alpha_ms: 10000, beta_ms: 1000}", "t4: {alpha_ms: 10000, beta_ms: 1000}");
    let none = Cache::default();
    let together = estimated(&jobs(&format!("{v100}, {t4}"), ""), &none);
    check(estimated(&jobs(v100, t4), &none), together);
    // A measured speed is compared at the measured batch.
    let mut cache = Cache::default();
    learn(&mut cache, &key("m", "v100"), 10, 0.5);
    check(estimated(&jobs("", t4), &cache), together);
}

/// A table of measured rates: model, precision, batch, GPU type and samples per second. A cell is held out
/// with all its batches.
type Rates = Vec<(String, Option<Precision>, u64, String, f64)>;

/// Returns the records of a table beside the repository, if it exists.
fn records(name: &str) -> Option<Vec<BTreeMap<String, String>>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    let Ok(text) = fs::read_to_string(&path) else {
        println!("skipped: no {}", path.display());
        return None;
    };
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    Some(reader.deserialize().map(|row| row.expect("a row")).collect())
}

fn gavel(which: &str) -> Option<Rates> {
    let rows = records("gavel/throughputs_isolated.csv")?;
    let mut rates = Rates::new();
    for row in rows.iter().filter(|row| row["table"] == which && row["scale_factor"] == "1") {
        for gpu_type in ["v100", "p100", "k80"] {
            let rate: f64 = row[gpu_type].parse().unwrap_or(0.0);
            rates.push((row["job_type"].clone(), None, 1, gpu_type.into(), rate));
        }
    }
    Some(rates)
}

fn sia() -> Option<Rates> {
    let name = |code: &str| match code {
        "dgx" => "a100-sxm4-40gb".into(),
        "quad" => "rtx-6000".into(),
        "rtx" => "rtx-2080-ti".into(),
        other => other.to_owned(),
    };
    let rate = |row: &BTreeMap<String, String>| {
        let (batch, rate) = (row["local_bsz"].parse().ok()?, row["samples_per_s"].parse().ok()?);
        Some((row["model"].clone(), Some(Precision::Fp16), batch, name(&row["gpu"]), rate))
    };
    Some(records("sia/single_gpu_seed_profiles.csv")?.iter().filter_map(rate).collect())
}

fn anchor() -> Option<Rates> {
    let rate = |row: &BTreeMap<String, String>| {
        let name = row["gpu"].trim_start_matches("LambdaCloud 1x ").trim_start_matches("LambdaCloud ");
        let name = name.split(" (").next()?.replace(' ', "-").to_lowercase();
        hsched_model::catalogue::recognise(&name)?;
        let (batch, rate) = (row["batch"].parse().ok()?, row["train_samples_per_s"].parse().ok()?);
        Some((format!("{} {} {}", row["source"], row["model"], row["precision"]), None, batch, name, rate))
    };
    Some(records("throughput/anchor_single_gpu_samples_per_s.csv")?.iter().filter_map(rate).collect())
}

/// Returns the number of held-out rates that have an estimate, the median and the 90th percentile of the
/// relative errors of their estimates, and the fraction within one standard deviation.
fn held_out(rates: &Rates, learn_from_others: bool) -> (usize, f64, f64, f64) {
    let rates: Rates = rates.iter().filter(|(.., rate)| *rate > 0.0).cloned().collect();
    let mut all = Cache::default();
    let mut cells = BTreeMap::<_, Vec<(u64, f64)>>::new();
    for (model, precision, batch, gpu_type, rate) in &rates {
        let key = SpeedKey { model: model.clone(), gpu_type: gpu(gpu_type), precision: *precision, gpus: 1 };
        learn(&mut all, &key, *batch, *rate);
        cells.entry(key).or_default().push((*batch, *rate));
    }
    let (mut errors, mut inside) = (Vec::new(), 0);
    for (key, seen) in &cells {
        let mut cache = Cache::default();
        for (other, contributor, record) in all.records() {
            let kept =
                if learn_from_others { other != *key } else { other.model == key.model && other != *key };
            if kept {
                cache.restore(&other, contributor, record.clone());
            }
        }
        let job = Job { precision: key.precision, ..job("x", "") };
        let job = Job { model: key.model.clone(), ..job };
        let Some((speed, origin)) = estimate(&job, key.gpu_type.as_str(), &cache, Estimates::All) else {
            continue;
        };
        for &(batch, rate) in seen {
            #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
            let ratio = speed.rate_at(batch as f64) / rate;
            errors.push((ratio - 1.0).abs());
            inside += usize::from(ratio.ln().abs() <= origin.error.ln_1p());
        }
    }
    errors.sort_by(f64::total_cmp);
    let count = errors.len();
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let part = inside as f64 / count as f64;
    (count, errors[count / 2], errors[count * 9 / 10], part)
}

#[test]
fn errors_on_published_tables_are_as_large_as_said() {
    let tables = [
        ("Gavel, simulation", gavel("simulation")),
        ("Gavel, physical", gavel("physical_cluster")),
        ("Sia", sia()),
        ("anchor file", anchor()),
    ];
    for (name, rates) in tables.iter().filter_map(|(name, rates)| Some((name, rates.as_ref()?))) {
        for (method, others) in [("GPU table", false), ("ratios", true)] {
            let (count, median, most, inside) = held_out(rates, others);
            println!(
                "{name}, {method}: {count} rates, median {:.0} %, 90th percentile {:.0} %, {:.0} % within the error bar",
                100.0 * median,
                100.0 * most,
                100.0 * inside
            );
            assert!(median < 0.45 && (0.5..0.9).contains(&inside), "{name}, {method}: {median}, {inside}");
        }
    }
}
