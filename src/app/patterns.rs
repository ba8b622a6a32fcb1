//! Names of jobs on the command line, in which a `*` matches any text.

/// Returns whether a word of the command line names a job; `*` matches any text.
pub(crate) fn is_meant(word: &str, name: &str) -> bool {
    let Some((begin, rest)) = word.split_once('*') else { return word == name };
    let Some(mut left) = name.strip_prefix(begin) else { return false };
    let Some((middle, end)) = rest.rsplit_once('*') else { return left.ends_with(rest) };
    for part in middle.split('*') {
        let Some((_, behind)) = left.split_once(part) else { return false };
        left = behind;
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::is_meant;

    #[test]
    fn stars_stand_for_any_letters() {
        for (word, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("sweep-*", "sweep-lr0.1", true),
            ("sweep-*", "sweep", false),
            ("*-lr0.1", "sweep-lr0.1", true),
            ("*-lr0.1", "sweep-lr0.12", false),
            ("a*a", "a", false),
            ("s*lr*1", "s-lr0.1", true),
            ("s*lr*1", "s-wd0.1", false),
            ("s*lr*lr1", "s-lr1", false),
            ("*", "any", true),
            ("**", "any", true),
        ] {
            assert_eq!(is_meant(word, name), expected, "{word} {name}");
        }
    }
}
