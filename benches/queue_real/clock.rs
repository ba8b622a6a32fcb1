//! The clock of a development cluster, which may run faster than the machine's.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that runs `speed` times as fast as the machine's.
pub struct ClusterClock {
    speed: f64,
    /// The clock's time when the machine's clock was 0.
    offset: f64,
}

impl ClusterClock {
    /// Reads the clock of the cluster in a directory: runs `date` under it five times and uses the quickest
    /// answer. A cluster without the file `etc/clock` uses the machine's clock.
    pub fn of(cluster: &Path) -> Self {
        let Ok(text) = fs::read_to_string(cluster.join("etc/clock")) else {
            return Self { speed: 1.0, offset: 0.0 };
        };
        let variables: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('=')).collect();
        let (_, told) = variables.iter().find(|(name, _)| *name == "FAKETIME").expect("FAKETIME");
        let speed: f64 = told.split_once('x').expect("a speed").1.parse().expect("a speed");
        let ask = || {
            let begin = machine();
            let mut command = Command::new("date");
            let output = command.arg("+%s.%N").envs(variables.iter().copied()).output().expect("date");
            let end = machine();
            let shown: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a time");
            (end - begin, shown - f64::midpoint(begin, end) * speed)
        };
        let best = (0..5).map(|_| ask()).min_by(|a, b| a.0.total_cmp(&b.0));
        Self { speed, offset: best.expect("five answers").1 }
    }

    /// Returns the cluster's time in Unix seconds.
    pub fn now(&self) -> f64 {
        machine() * self.speed + self.offset
    }

    /// Waits until a time of the cluster's clock.
    pub fn wait_until(&self, moment: f64) {
        let left = (moment - self.now()) / self.speed;
        thread::sleep(Duration::try_from_secs_f64(left).unwrap_or_default());
    }

    /// Converts a duration of the cluster's clock to the machine's.
    pub fn real_seconds(&self, cluster_seconds: f64) -> f64 {
        cluster_seconds / self.speed
    }
}

fn machine() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}
