//! The names of limits: Slurm's own, and the other spellings of `sacctmgr`.

use crate::{Limit, Snapshot};

/// All limits of associations and QOS, as hsched calls them.
const NAMES: [&str; 21] = [
    "GrpJobs",
    "GrpSubmitJobs",
    "GrpTRES",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "GrpWall",
    "MaxJobs",
    "MaxJobsPerAccount",
    "MaxJobsPerUser",
    "MaxSubmitJobs",
    "MaxSubmitJobsPerAccount",
    "MaxSubmitJobsPerUser",
    "MaxTRES",
    "MaxTRESMins",
    "MaxTRESPerAccount",
    "MaxTRESPerNode",
    "MaxTRESPerUser",
    "MaxTRESRunMinsPerAccount",
    "MaxTRESRunMinsPerUser",
    "MaxWall",
    "MinTRES",
];

/// Endings of `sacctmgr`, and what they stand for.
const ENDINGS: [(&str, &str); 5] =
    [("pu", "peruser"), ("pa", "peraccount"), ("pn", "pernode"), ("pj", ""), ("perjob", "")];

impl Snapshot {
    /// Gives the limits their usual names. Notes those with an unknown name or holder, which no estimate counts.
    pub(crate) fn name_limits(&mut self) {
        let mut unknown: Vec<String> = Vec::new();
        for Limit { holder, name, .. } in self.limits.iter_mut().flatten() {
            match usual(name) {
                Some(usual) if is_holder(holder) => *name = usual.to_owned(),
                _ => unknown.push(format!("{name} of {holder}")),
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            let list = unknown.join(", ");
            self.notes.push(format!(
                "the snapshot has limits whose name or holder this version does not know: {list}"
            ));
        }
    }
}

/// Returns the usual name of a limit.
fn usual(name: &str) -> Option<&'static str> {
    let plain = |name: &str| {
        let name = name.to_ascii_lowercase().replace("submitjobs", "submit").replace("duration", "");
        let ending =
            ENDINGS.iter().find_map(|(short, long)| Some(name.strip_suffix(short)?.to_owned() + long));
        ending.unwrap_or(name)
    };
    let name = plain(name);
    NAMES.into_iter().find(|known| plain(known) == name)
}

/// Returns whether a text is `q:QOS`, `a:ACCOUNT` or `u:ACCOUNT:USER`.
fn is_holder(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    matches!(parts[..], ["q" | "a", _] | ["u", _, _]) && parts.iter().all(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_spellings_of_sacctmgr_are_read() {
        for (spelling, name) in [
            ("MaxTRESPU", "MaxTRESPerUser"),
            ("maxtrespa", "MaxTRESPerAccount"),
            ("MaxTRESPN", "MaxTRESPerNode"),
            ("MaxTRESPerJob", "MaxTRES"),
            ("MaxTRESRunMinsPU", "MaxTRESRunMinsPerUser"),
            ("MaxJobsPU", "MaxJobsPerUser"),
            ("MaxSubmitPA", "MaxSubmitJobsPerAccount"),
            ("GrpSubmit", "GrpSubmitJobs"),
            ("MaxWallDurationPerJob", "MaxWall"),
        ] {
            assert_eq!(usual(spelling), Some(name), "{spelling}");
        }
        assert!(NAMES.into_iter().all(|name| usual(name) == Some(name)));
        assert_eq!(usual("NoSuch"), None);
    }

    #[test]
    fn unknown_names_and_holders_are_noted() {
        let limit = |holder: &str, name: &str| json!({ "holder": holder, "name": name, "tres": "gres/gpu", "max": 2 });
        let snapshot = |limits: &[serde_json::Value]| {
            let queue = json!({ "schema": "hsched.queue/1", "taken_at": 1e6, "nodes": [], "jobs": [], "limits": limits });
            Snapshot::parse(&queue.to_string()).expect("a snapshot")
        };
        let known = snapshot(&[
            limit("q:normal", "MaxTRESPU"),
            limit("u:bio:ann", "GrpTRES"),
            limit("a:bio", "GrpTRES"),
        ]);
        assert_eq!(known.notes, [""; 0]);
        assert_eq!(known.limits.expect("limits")[0].name, "MaxTRESPerUser");
        let unknown =
            snapshot(&[limit("zz", "MaxTRES"), limit("q:normal", "NoSuch"), limit("a:", "MaxTRES")]);
        let note = "the snapshot has limits whose name or holder this version does not know: \
            MaxTRES of a:, MaxTRES of zz, NoSuch of q:normal";
        assert_eq!(unknown.notes, [note]);
    }
}
