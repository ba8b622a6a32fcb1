//! The file of measured speeds: every flipped bit is detected, and manual edits that are marked as such are
//! accepted.

use std::fs;

use hsched_engine::store::{SpeedFile, SpeedFileError, StateDir};
use hsched_model::{GpuType, Precision, Speed, Time};
use hsched_plan::throughput::SpeedKey;
use tempfile::TempDir;

use crate::damage::{flip, peek};
use crate::state_round_trip::rules;

/// Returns a locked state directory with two speeds, and the speeds.
fn directory() -> (TempDir, StateDir, SpeedFile) {
    let folder = tempfile::tempdir().expect("a directory");
    let directory = StateDir::open(folder.path()).expect("opens");
    let mut file = SpeedFile::load(folder.path()).expect("nothing yet");
    for (model, rate) in [("resnet18", 644.25), ("vgg19", 82.5)] {
        let gpu_type = GpuType::new("v100").expect("a type");
        let key = SpeedKey { model: model.into(), gpu_type, precision: Some(Precision::Bf16), gpus: 1 };
        file.cache.set(&key, Speed::rate(rate).expect("a speed"), 1.79e9, "me");
        file.save(&directory).expect("saves");
    }
    assert_eq!((SpeedFile::load(folder.path()).expect("reads"), file.saves), (file.clone(), 2));
    (folder, directory, file)
}

/// Opens the state for a change, which repairs damage; returns the messages.
fn opened(directory: &StateDir) -> Vec<String> {
    let (_, ledger) = directory.ledger(&rules(), Time(4.0)).expect("reads");
    ledger.repaired().to_vec()
}

#[test]
fn a_flipped_bit_of_the_speeds_is_told() {
    let (folder, directory, _) = directory();
    let root = folder.path();
    opened(&directory);
    flip(&SpeedFile::path(root), |bit| {
        let error = SpeedFile::load(root).map(drop).expect_err("is damaged");
        assert!(!matches!(error, SpeedFileError::Schema { .. }), "bit {bit}: {error}");
        let (state, troubles) = peek(root).expect("goes on");
        assert_eq!((state.cache.estimates().count(), troubles.len()), (0, 1), "bit {bit}: {troubles:?}");
        assert!(troubles[0].contains("/throughput.json is damaged ("), "bit {bit}: {troubles:?}");
    });
    let bytes = fs::read(SpeedFile::path(root)).expect("a file");
    for length in 0..bytes.len() {
        fs::write(SpeedFile::path(root), &bytes[..length]).expect("a file");
        SpeedFile::load(root).map(drop).expect_err("is cut");
    }
}

#[test]
fn what_has_no_checksum_is_taken_from_others_and_sealed() {
    let (folder, directory, file) = directory();
    let root = folder.path();
    let path = SpeedFile::path(root);
    let sealed = fs::read_to_string(&path).expect("a text");
    let (body, _) = sealed.split_once(",\n  \"sha256\": \"").expect("a checksum");
    // The format of version 0.1.0 and of cache export.
    let before = "{\"schema\": \"hsched.cache/1\", \"contributor\": \"me\", \"speeds\": [\n\n]}\n";
    assert_eq!(SpeedFile::parse(before).expect("reads").saves, 0);
    let exported = SpeedFile::parse(&file.to_json()).expect("reads");
    assert_eq!(exported, SpeedFile { saves: 0, ..file.clone() });
    // A file of the state directory cannot lose its checksum by accident.
    let error = SpeedFile::parse(&format!("{body}\n}}\n")).expect_err("has none");
    assert_eq!(error.to_string(), "it has no checksum");
    let edited = format!("{body},\n  \"sha256\": \"edited\"\n}}\n").replace("644.25", "700.5");
    for text in [file.to_json(), edited] {
        fs::write(&path, &text).expect("a file");
        let read = SpeedFile::load(root).expect("reads");
        assert_eq!(opened(&directory), [] as [String; 0], "{text}");
        assert_eq!(SpeedFile::load(root).expect("reads").cache, read.cache);
        let sealed = fs::read_to_string(&path).expect("a text");
        assert!(sealed.contains("\"sha256\": \"") && !sealed.contains("edited"), "{sealed}");
        assert_eq!(sealed.contains("700.5"), text.contains("700.5"));
    }
}
