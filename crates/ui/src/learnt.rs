//! Messages about learnt speeds: the first of each, and notable changes.

use std::collections::BTreeMap;

use hsched_model::number::to_f64;
use hsched_model::{GpuType, Speed};
use hsched_plan::throughput::{Lesson, MeasuredSpeed, Sample, SpeedKey};

/// Speeds at the last message, or as known before any message.
#[derive(Debug, Default)]
pub(super) struct LearntSpeeds {
    known: BTreeMap<SpeedKey, Speed>,
}

/// The change of a speed through samples of one moment.
struct SpeedChange<'a> {
    /// The sample with the most steps.
    sample: &'a Sample,
    before: Option<MeasuredSpeed>,
    after: MeasuredSpeed,
}

/// Relative changes below this are not worth a message.
const NOTABLE: f64 = 0.05;

impl LearntSpeeds {
    /// Returns messages about lessons: speeds that differ from the last message or from the known values, at
    /// first from those of the job file.
    ///
    /// `given` contains the speeds of the job file; it is `None` if there are none and speeds were assumed.
    pub(super) fn tell(
        &mut self,
        given: Option<&BTreeMap<GpuType, Speed>>,
        samples: &[Sample],
        lessons: &[Lesson],
    ) -> Option<String> {
        let said: Vec<String> = changes(samples, lessons)
            .iter()
            .filter_map(|(key, change)| self.change(given, key, change))
            .collect();
        (!said.is_empty()).then(|| format!("measured {}", said.join(", ")))
    }

    fn change(
        &mut self,
        given: Option<&BTreeMap<GpuType, Speed>>,
        key: &SpeedKey,
        change: &SpeedChange<'_>,
    ) -> Option<String> {
        let batch = to_f64(change.sample.batch);
        let rate = change.after.speed.rate_at(batch);
        let is_notable = |before: f64| (rate / before - 1.0).abs() >= NOTABLE;
        let of_file = given.and_then(|speeds| speeds.get(&key.gpu_type)).map(|speed| speed.rate_at(batch));
        let before = self.known.get(key).copied().or(change.before.map(|measured| measured.speed));
        let before = before.map(|speed| speed.rate_at(batch));
        if !before.or(of_file).is_none_or(is_notable) {
            // Small changes may add up to a notable one.
            self.known.entry(key.clone()).or_insert(change.before.unwrap_or(change.after).speed);
            return None;
        }
        self.known.insert(key.clone(), change.after.speed);
        let at = if change.after.batches == 1 {
            format!(" at batch {}", change.sample.batch)
        } else {
            String::new()
        };
        let than = match before {
            Some(before) => format!(" (before: {})", per_second(before)),
            None if given.is_none() => String::new(),
            None => format!(" (job file: {})", of_file.map_or("nothing".to_owned(), per_second)),
        };
        Some(format!("{} {}{at}{than}", key.place(), per_second(rate)))
    }
}

/// Returns the changes by speed.
fn changes<'a>(samples: &'a [Sample], lessons: &[Lesson]) -> BTreeMap<&'a SpeedKey, SpeedChange<'a>> {
    let mut changes: BTreeMap<&SpeedKey, SpeedChange<'_>> = BTreeMap::new();
    for (sample, lesson) in samples.iter().zip(lessons) {
        let Lesson::Learnt { before, after } = *lesson else { continue };
        let change = changes.entry(&sample.key).or_insert(SpeedChange { sample, before, after });
        change.after = after;
        if sample.steps > change.sample.steps {
            change.sample = sample;
        }
    }
    changes
}

fn per_second(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}/s") } else { format!("{rate:.0}/s") }
}
