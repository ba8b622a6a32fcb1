//! The end of a batch script or a step.

/// The exit code and the signal with which a batch script or a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus {
    pub code: u8,
    /// The signal that ended the program; 0 for none.
    pub signal: u8,
}

impl ExitStatus {
    /// Slurm's value in place of a signal if processes were killed for exceeding the memory limit.
    const OUT_OF_MEMORY: u8 = 125;

    /// Parses a status as `code:signal` or as the number returned by `wait`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some((code, signal)) = text.trim().split_once(':') {
            return Some(Self { code: code.parse().ok()?, signal: signal.parse().ok()? });
        }
        let [low, code, ..] = text.trim().parse::<u32>().ok()?.to_le_bytes();
        Some(Self { code, signal: low & 0x7f })
    }

    /// Returns whether Slurm reports the memory limit as the cause.
    pub(crate) fn is_out_of_memory(self) -> bool {
        self.signal == Self::OUT_OF_MEMORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read() {
        let check = |text: &str, expected: Option<(u8, u8)>| {
            assert_eq!(ExitStatus::parse(text).map(|exit| (exit.code, exit.signal)), expected, "{text}");
        };
        check("21760", Some((85, 0)));
        check(" 15", Some((0, 15)));
        check("3:0", Some((3, 0)));
        check("0:125", Some((0, 125)));
        for text in ["", "x", "1:", "300:0", "-1"] {
            check(text, None);
        }
    }
}
