//! Slurm's hostlist expressions: expands `gpu[01-03,7]` to names, and compresses names as Slurm does.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

/// Maximum number of names of one expression: more than the largest cluster has nodes.
const MOST_NAMES: u64 = 1_000_000;
/// Maximum length of a name in bytes, as in DNS. It also bounds the cost of an expression.
const LONGEST_NAME: usize = 255;
/// Maximum number of digits that are treated as a number.
const MOST_DIGITS: usize = 18;

/// Why a text is not a valid hostlist expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostlistError {
    #[error("{item:?}: brackets do not match")]
    Brackets { item: String },
    #[error("{item:?}: {range:?} is neither a number nor a range like 01-12")]
    Range { item: String, range: String },
    #[error("{item:?}: the range {range:?} runs backwards")]
    Reversed { item: String, range: String },
    #[error("{item:?}: a name would be longer than {limit} characters")]
    Long { item: String, limit: usize },
    #[error("the expression stands for more than {limit} names")]
    Many { limit: u64 },
}

/// Returns the names of an expression, in the order written; duplicates are kept.
///
/// The grammar includes Slurm's: items separated by commas, each with any number of brackets that hold
/// numbers and ranges (`r[1-2]n[01-03,7]-ib`). A range pads to the width of its first number. Empty items are
/// skipped, so the empty text has no names.
///
/// # Errors
/// If brackets do not match or contain something else, a range is descending, or there are too many or too
/// long names.
pub fn expand(text: &str) -> Result<Vec<String>, HostlistError> {
    let patterns = items(text)
        .into_iter()
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(pattern)
        .collect::<Result<Vec<_>, _>>()?;
    let total = patterns.iter().map(|parts| count(parts)).fold(0, u64::saturating_add);
    if total > MOST_NAMES {
        return Err(HostlistError::Many { limit: MOST_NAMES });
    }
    Ok(patterns.iter().flat_map(|parts| names(parts)).collect())
}

/// Returns the expression that Slurm would print for `names`: duplicates removed, numbers combined in
/// brackets.
///
/// Slurm accepts a bracket only at the end of an item or before another bracket, so only those are written.
/// Expanding the result gives the same set of names, with patterns in natural order and sorted by number
/// within a pattern. Equal sets give equal texts. Names must not contain brackets, commas or blanks, which
/// [`NodeName`](crate::NodeName) ensures.
pub fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let mut patterns: Vec<Vec<String>> = names.iter().map(|name| runs(name)).collect();
    let places = patterns.iter().map(|parts| parts.len() / 2).max().unwrap_or(0);
    for place in 0..places {
        patterns = fold(patterns, place);
    }
    patterns.sort_by(|a, b| natural_order(&first_name(a), &first_name(b)));
    patterns.iter().map(|parts| parts.concat()).collect::<Vec<_>>().join(",")
}

/// Compares two names in natural order, in which `n2` precedes `n10`.
pub fn natural_order(left: &str, right: &str) -> Ordering {
    let (left_runs, right_runs) = (runs(left), runs(right));
    for (index, (a, b)) in left_runs.iter().zip(&right_runs).enumerate() {
        let numbers = (a.trim_start_matches('0'), b.trim_start_matches('0'));
        let order = if index % 2 == 0 { a.cmp(b) } else { by_value(numbers.0, numbers.1) };
        if order != Ordering::Equal {
            return order;
        }
    }
    left_runs.len().cmp(&right_runs.len()).then_with(|| left.cmp(right))
}

/// One part of an item: fixed text, or the numbers in a bracket.
enum HostPiece<'a> {
    Text(&'a str),
    Numbers(Vec<NumberRange>),
}

/// Numbers from `first` to `last` (inclusive), zero-padded to `width` digits.
struct NumberRange {
    first: u64,
    last: u64,
    width: usize,
}

/// Splits at the commas outside brackets.
fn items(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(move |c: char| {
        inside = (inside || c == '[') && c != ']';
        c == ',' && !inside
    })
    .collect()
}

fn pattern(item: &str) -> Result<Vec<HostPiece<'_>>, HostlistError> {
    let unmatched = || HostlistError::Brackets { item: excerpt(item) };
    let mut pieces = Vec::new();
    let mut longest = 0;
    let mut rest = item;
    while let Some((text, tail)) = rest.split_once('[') {
        let (inside, after) = tail.split_once(']').ok_or_else(unmatched)?;
        if text.contains(']') || inside.contains('[') {
            return Err(unmatched());
        }
        let numbers =
            inside.split(',').map(|range| parse_range(item, range)).collect::<Result<Vec<_>, _>>()?;
        longest += text.len() + numbers.iter().map(NumberRange::longest).max().unwrap_or(0);
        pieces.extend([HostPiece::Text(text), HostPiece::Numbers(numbers)]);
        rest = after;
    }
    if rest.contains(']') {
        return Err(unmatched());
    }
    pieces.push(HostPiece::Text(rest));
    if longest + rest.len() > LONGEST_NAME {
        return Err(HostlistError::Long { item: excerpt(item), limit: LONGEST_NAME });
    }
    Ok(pieces)
}

fn parse_range(item: &str, range: &str) -> Result<NumberRange, HostlistError> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    match (number(first), number(last)) {
        (Some(low), Some(high)) if low <= high => {
            Ok(NumberRange { first: low, last: high, width: first.len() })
        }
        (Some(_), Some(_)) => Err(HostlistError::Reversed { item: excerpt(item), range: excerpt(range) }),
        _ => Err(HostlistError::Range { item: excerpt(item), range: excerpt(range) }),
    }
}

impl NumberRange {
    fn longest(&self) -> usize {
        self.width.max(self.last.to_string().len())
    }
}

fn count(pieces: &[HostPiece<'_>]) -> u64 {
    let size = |range: &NumberRange| (range.last - range.first).saturating_add(1);
    pieces.iter().fold(1, |product: u64, piece| match piece {
        HostPiece::Text(_) => product,
        HostPiece::Numbers(ranges) => {
            product.saturating_mul(ranges.iter().map(size).fold(0, u64::saturating_add))
        }
    })
}

fn names(pieces: &[HostPiece<'_>]) -> Vec<String> {
    pieces.iter().fold(vec![String::new()], |heads, piece| match piece {
        HostPiece::Text(text) => heads.into_iter().map(|head| head + text).collect(),
        HostPiece::Numbers(ranges) => {
            let numbers = || {
                ranges
                    .iter()
                    .flat_map(|r| (r.first..=r.last).map(|n| format!("{n:0width$}", width = r.width)))
            };
            heads.iter().flat_map(|head| numbers().map(move |number| format!("{head}{number}"))).collect()
        }
    })
}

/// Returns the beginning of a text for an error message.
fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Splits a name into alternating text and numbers, beginning and ending with text (possibly empty).
fn runs(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for c in name.chars() {
        let in_number = parts.len().is_multiple_of(2);
        if c.is_ascii_digit() != in_number {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    if parts.len().is_multiple_of(2) {
        parts.push(String::new());
    }
    parts
}

/// Merges the patterns that differ only in their number at position `place`, counted from the end.
fn fold(patterns: Vec<Vec<String>>, place: usize) -> Vec<Vec<String>> {
    let mut folded = Vec::new();
    let mut groups: BTreeMap<(usize, Vec<String>), Vec<String>> = BTreeMap::new();
    for mut parts in patterns {
        let position = parts
            .len()
            .checked_sub(2 + 2 * place)
            .filter(|&at| parts[at].len() <= MOST_DIGITS && may_have_bracket(&parts, place));
        if let Some(position) = position {
            let number = std::mem::take(&mut parts[position]);
            groups.entry((position, parts)).or_default().push(number);
        } else {
            folded.push(parts);
        }
    }
    for ((position, mut parts), numbers) in groups {
        parts[position] = bracket(numbers);
        folded.push(parts);
    }
    folded
}

/// Returns whether Slurm accepts a bracket at `place`.
fn may_have_bracket(parts: &[String], place: usize) -> bool {
    match parts {
        [.., number, end] => end.is_empty() && (place == 0 || number.starts_with('[')),
        _ => false,
    }
}

/// Returns `07` for one number, and `[07-09,11]` for several.
fn bracket(mut numbers: Vec<String>) -> String {
    numbers.sort_by(|a, b| by_value(a, b));
    let mut ranges: Vec<(String, String)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((first, last)) if follows(first, last, &number) => *last = number,
            _ => ranges.push((number.clone(), number)),
        }
    }
    let texts: Vec<String> =
        ranges.iter().map(|(a, b)| if a == b { a.clone() } else { format!("{a}-{b}") }).collect();
    if let [(first, last)] = ranges.as_slice()
        && first == last
    {
        return first.clone();
    }
    format!("[{}]", texts.join(","))
}

/// Returns whether `next` follows `last` in a range that began with `first`.
fn follows(first: &str, last: &str, next: &str) -> bool {
    last.parse::<u64>().is_ok_and(|last| next == format!("{:0width$}", last + 1, width = first.len()))
}

/// Compares digit strings without leading zeros by value; otherwise shorter ones come first.
fn by_value(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// Returns the first name of a merged pattern.
fn first_name(parts: &[String]) -> String {
    let first = |part: &String| match part.strip_prefix('[') {
        Some(inside) => inside.chars().take_while(char::is_ascii_digit).collect(),
        None => part.clone(),
    };
    parts.iter().map(first).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expressions_stand_for_names_in_the_order_written() {
        let check = |text: &str, expected: &str| {
            assert_eq!(expand(text).expect(text).join(" "), expected, "{text}");
        };
        check("", "");
        check("login", "login");
        check(
            "gra[1-3,07-12],cdr00[1-2],login",
            "gra1 gra2 gra3 gra07 gra08 gra09 gra10 gra11 gra12 cdr001 cdr002 login",
        );
        check("r[1-2]n[01-03]", "r1n01 r1n02 r1n03 r2n01 r2n02 r2n03");
        check("n[1-2]-ib,,x", "n1-ib n2-ib x");
        check("c[9-11],c[09-11],c[001-2]", "c9 c10 c11 c09 c10 c11 c001 c002");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let check = |text: &str, expected: &str| {
            assert_eq!(expand(text).expect_err(text).to_string(), expected, "{text}");
        };
        for text in ["a[1", "a1]", "a[[1]]", "a[1]]", "a]1[", "a[1,b"] {
            assert!(matches!(expand(text), Err(HostlistError::Brackets { .. })), "{text}");
        }
        for text in ["a[]", "a[1-]", "a[-1]", "a[x]", "a[1,,2]", "a[1-2-3]", "a[99999999999999999999]"] {
            assert!(matches!(expand(text), Err(HostlistError::Range { .. })), "{text}");
        }
        check("a[3-1]", "\"a[3-1]\": the range \"3-1\" runs backwards");
        let many = "the expression stands for more than 1000000 names";
        check("a[0-18446744073709551615]", many);
        check("a[1-1000]b[1-1000]c[1-2]", many);
        check("a[1-600000],b[1-600000]", many);
        let long = format!("{}[1-1000000]", "x".repeat(250));
        assert!(matches!(expand(&long), Err(HostlistError::Long { .. })));
        assert_eq!(expand("a[1-1000000]").expect("at the limit").len(), 1_000_000);
    }

    #[test]
    fn names_fold_as_slurm_folds_them() {
        let check = |names: &str, expected: &str| assert_eq!(compress(names.split(' ')), expected, "{names}");
        check("", "");
        check("n2 n10 n9 n1 n2", "n[1-2,9-10]");
        check("n08 n09 n10 n9", "n[9,08-10]");
        check("n1-ib n2-ib login", "login,n1-ib,n2-ib");
        check("r1n01 r1n02 r2n01 r2n02 r3n01 r4n01", "r[1-2]n[01-02],r3n01,r4n01");
        check("gpu10 gpu2 cpu1", "cpu1,gpu[2,10]");
        check("7 8", "[7-8]");
        check(
            "x123456789012345678901 x123456789012345678902",
            "x123456789012345678901,x123456789012345678902",
        );
    }

    #[test]
    fn names_sort_as_people_count() {
        let mut names = ["n10", "n2", "n02", "m", "n2-b", "n2-a10", "n2-a9"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["m", "n02", "n2", "n2-a9", "n2-a10", "n2-b", "n10"]);
    }

    proptest! {
        #[test]
        fn expanding_a_folded_set_gives_the_set(names in prop::collection::btree_set("[a-c]{0,2}[0-9]{0,3}[a-b-]{0,2}[01]{0,2}", 0..40)) {
            let names: BTreeSet<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
            let folded = compress(names.iter().map(String::as_str));
            let expanded = expand(&folded).expect("own text");
            prop_assert_eq!(expanded.len(), names.len(), "{}", folded);
            prop_assert_eq!(expanded.into_iter().collect::<BTreeSet<_>>(), names, "{}", folded);
        }

        #[test]
        fn no_text_panics(text in "[ab0-9,\\[\\]-]{0,30}|.{0,30}") {
            let _ = expand(&text);
            let _ = compress([text.as_str()]);
        }
    }
}
