//! Files of measured speeds: what is read is written and read back as it was.
#![no_main]

use hsched_engine::store::SpeedFile;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(file) = SpeedFile::parse(text) {
        let again = SpeedFile::parse(&file.to_json());
        // What others get does not say how often it was saved here.
        assert!(again.is_ok_and(|again| again == SpeedFile { saves: 0, ..file.clone() }));
        let table = file.to_csv().ok().and_then(|table| SpeedFile::parse_csv(&table).ok());
        assert!(table.is_some_and(|table| table.estimates().eq(file.cache.estimates())));
    }
    if let Ok(cache) = SpeedFile::parse_csv(text) {
        assert!(cache.estimates().all(|(_, estimate)| estimate.error.is_finite()));
    }
});
