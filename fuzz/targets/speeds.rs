//! Files of measured speeds: a file that is read and written again reads back unchanged.
#![no_main]

use hsched_engine::store::SpeedFile;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(file) = SpeedFile::parse(text) {
        let again = SpeedFile::parse(&file.to_json());
        // An exported file does not contain the number of saves.
        assert!(again.is_ok_and(|again| again == SpeedFile { saves: 0, ..file.clone() }));
        let table = file.to_csv().ok().and_then(|table| SpeedFile::parse_csv(&table).ok());
        assert!(table.is_some_and(|table| table.estimates().eq(file.cache.estimates())));
    }
    if let Ok(cache) = SpeedFile::parse_csv(text) {
        assert!(cache.estimates().all(|(_, estimate)| estimate.error.is_finite()));
    }
});
