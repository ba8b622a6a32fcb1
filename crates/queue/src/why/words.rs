//! Formats amounts and jobs in words.

use hsched_model::Seconds;
use hsched_model::formats::counted;
use hsched_model::number::{to_f64, to_u64};

use crate::Asks;

/// Formats a time limit in at most two units: `45 min`, `7 h 30 min`, `24 h`, `36 h`, `2 d 12 h`, `7 d`.
pub fn span(time: Seconds) -> String {
    let minutes = to_u64((time.0 / 60.0).round().max(0.0));
    let (days, hours, rest) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match (days, hours, rest) {
        (0, 0, 0) => "less than a minute".to_owned(),
        (0, 0, rest) => format!("{rest} min"),
        (0, hours, 0) => format!("{hours} h"),
        (0, hours, rest) => format!("{hours} h {rest} min"),
        (1, 0, _) => "24 h".to_owned(),
        (1, hours, _) => format!("{} h", 24 + hours),
        (days, 0, _) => format!("{days} d"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// Lists at most three names, and the number of others.
pub(super) fn named(names: &[String]) -> String {
    const MOST: usize = 3;
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [start @ .., last] if names.len() <= MOST => format!("{} and {last}", start.join(", ")),
        _ => format!("{} and {} more", names[..MOST].join(", "), names.len() - MOST),
    }
}

/// Returns the total number of GPUs that a job requests, on all its nodes.
pub(super) fn all_gpus(asks: &Asks) -> u64 {
    let per_node = asks.gpus.iter().fold(0_u64, |sum, ask| sum + u64::from(ask.count));
    per_node.saturating_mul(u64::from(asks.nodes.max(1)))
}

/// Formats a job's request: `4 a100 GPUs on 1 node`.
pub fn asked(asks: &Asks) -> String {
    let nodes = asks.nodes.max(1);
    let on = counted(usize::try_from(nodes).unwrap_or(usize::MAX), "node");
    let gpu = |(gpu_type, count): (Option<&str>, u64)| {
        let gpu_type = gpu_type.map_or(String::new(), |name| format!("{name} "));
        format!("{count} {gpu_type}GPU{}", if count == 1 { "" } else { "s" })
    };
    let gpus: Vec<String> = asks
        .gpus
        .iter()
        .map(|ask| {
            let count = u64::from(ask.count) * u64::from(nodes);
            gpu((ask.gpu_type.as_ref().map(hsched_model::GpuType::as_str), count))
        })
        .collect();
    match (gpus.as_slice(), asks.cpus) {
        ([], Some(cpus)) => {
            let cpus = to_f64(cpus) * f64::from(nodes);
            format!("{cpus} CPU{} on {on}", if cpus == 1.0 { "" } else { "s" })
        }
        ([], None) => on,
        (gpus, _) => format!("{} on {on}", gpus.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_at_most_two_units() {
        let check = |minutes: f64, text: &str| assert_eq!(span(Seconds(minutes * 60.0)), text);
        check(45.0, "45 min");
        check(60.0, "1 h");
        check(450.0, "7 h 30 min");
        check(1440.0, "24 h");
        check(36.0 * 60.0, "36 h");
        check(7.0 * 1440.0, "7 d");
        check(60.0 * 60.0, "2 d 12 h");
    }

    #[test]
    fn huge_amounts_do_not_overflow() {
        let gpu = crate::GpuAsk { gpu_type: None, count: u32::MAX };
        let asks = Asks { nodes: u32::MAX, gpus: vec![gpu.clone(), gpu], ..Asks::default() };
        assert_eq!(all_gpus(&asks), u64::MAX);
        assert!(asked(&asks).contains("18446744065119617025 GPUs on 4294967295 nodes"), "{}", asked(&asks));
    }

    #[test]
    fn long_lists_are_cut() {
        let names = |count: usize| (1..=count).map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!((named(&names(1)), named(&names(3))), ("1".to_owned(), "1, 2 and 3".to_owned()));
        assert_eq!(named(&names(9)), "1, 2, 3 and 6 more");
    }
}
