//! The walltime that a run asks for: what it is predicted to take, with a margin, within the limits.

use crate::model::Seconds;

/// Returns the minutes to ask for: `predicted` times `margin` and the time to save, at most the least limit.
///
/// Never less than leaves the job a minute beside its `grace`: Slurm would signal it before it began.
#[must_use]
pub fn walltime_minutes(predicted: Seconds, margin: f64, grace: Seconds, limits: &[Seconds]) -> u64 {
    let wanted = predicted.0 * margin + grace.0 + 60.0;
    let least = ((grace.0 + 60.0) / 60.0).ceil();
    let limit = limits.iter().map(|limit| (limit.0 / 60.0).floor()).fold(f64::INFINITY, f64::min);
    // Ten years stand for "no limit": Slurm keeps minutes in 32 bits.
    let minutes = (wanted / 60.0).ceil().clamp(least, 5_256_000.0).min(limit).max(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to a small positive range"
    )]
    let minutes = minutes as u64;
    minutes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_has_a_margin_and_respects_every_limit() {
        let check = |predicted, limits: &[f64], expected| {
            let limits: Vec<Seconds> = limits.iter().map(|&limit| Seconds(limit)).collect();
            assert_eq!(walltime_minutes(Seconds(predicted), 1.5, Seconds(120.0), &limits), expected);
        };
        check(3600.0, &[], 93);
        check(3600.0, &[3600.0, 1830.0], 30);
        check(1.0, &[], 4);
        check(f64::INFINITY, &[], 5_256_000);
        check(10.0, &[30.0], 1);
    }
}
