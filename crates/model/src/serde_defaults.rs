//! Defaults of omitted fields, for serde's attributes.

/// Returns the default of counts.
pub fn one() -> u32 {
    1
}

/// Returns whether a count is its default.
pub fn is_one(count: &u32) -> bool {
    *count == 1
}

/// Returns whether a count that starts at 0 is its default.
pub fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Returns whether a flag is its default.
pub fn is_false(value: &bool) -> bool {
    !value
}
