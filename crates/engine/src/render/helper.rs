//! The Python package `hsched_ddp`, which is written beside each job script for training programs to import.

/// Includes a file of the package under its path beside the script.
macro_rules! package {
    ($($name:literal),* $(,)?) => {
        [$((
            concat!("hsched_ddp/", $name),
            include_str!(concat!("../../../../templates/hsched_ddp/", $name)),
        )),*]
    };
}

/// The files of the package: paths beside the job script, and contents.
pub(super) const PACKAGE: [(&str, &str); 35] = package![
    "__init__.py",
    "accelerated.py",
    "batches.py",
    "checkpoint.py",
    "copies.py",
    "core.py",
    "driven.py",
    "epochs.py",
    "evaluation.py",
    "exchange.py",
    "gate.py",
    "hf.py",
    "lightning.py",
    "losses.py",
    "merge.py",
    "noticing.py",
    "optional.py",
    "preflight.py",
    "prepare.py",
    "process.py",
    "progress.py",
    "ranges.py",
    "replica_exchange.py",
    "replicas.py",
    "report.py",
    "rounds.py",
    "sampler.py",
    "saving.py",
    "sharded.py",
    "shares.py",
    "step.py",
    "stream.py",
    "training.py",
    "values.py",
    "wrapping.py",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn no_file_of_the_package_is_forgotten() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../templates/hsched_ddp");
        let entries = fs::read_dir(folder).expect("the package").map(|entry| entry.expect("an entry"));
        let is_python = |name: &String| name.strip_suffix(".py").is_some();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_python);
        let mut files: Vec<String> = names.map(|name| format!("hsched_ddp/{name}")).collect();
        files.sort();
        assert_eq!(PACKAGE.map(|(path, _)| path.to_owned()).to_vec(), files);
    }
}
