//! The fields of a map in a file, looked up by key; missing and unknown keys are reported.

use std::collections::BTreeMap;

use super::super::problem::ValueError;
use super::ReaderValue;
use crate::ErrorId;

/// A map with known keys.
pub(in crate::formats) struct Fields<'a> {
    pub(super) map: ReaderValue<'a>,
    pub(super) values: BTreeMap<&'a str, ReaderValue<'a>>,
    /// The known keys that unknown ones resemble.
    pub(super) misspelt: Vec<String>,
}

impl<'a> Fields<'a> {
    /// Returns the map with these fields.
    pub(in crate::formats) fn map(&self) -> &ReaderValue<'a> {
        &self.map
    }

    /// Returns the value of a key.
    pub(in crate::formats) fn get(&self, key: &str) -> Option<&ReaderValue<'a>> {
        self.values.get(key)
    }

    /// Returns whether the map has a key, or an unknown one that resembles it.
    pub(in crate::formats) fn is_meant(&self, key: &str) -> bool {
        self.values.contains_key(key) || self.misspelt.iter().any(|misspelt| misspelt == key)
    }

    /// Returns the value of a key. Reports a missing key, unless an unknown key resembles it, which has
    /// already been reported.
    pub(in crate::formats) fn required(&self, key: &str) -> Option<&ReaderValue<'a>> {
        let value = self.get(key);
        // A value that is not a map has already been reported.
        if !self.is_meant(key) && (self.map.is_map() || self.map.is_nothing()) {
            self.map.report(
                ValueError::new(format!("is missing the required key {key}")).id(ErrorId::MissingKey),
            );
        }
        value
    }

    /// Reads the value of a key with `read`; `default` if the key is missing.
    pub(in crate::formats) fn or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&ReaderValue<'a>) -> Option<T>,
    ) -> Option<T> {
        self.get(key).map_or(Some(default), read)
    }
}
