//! Compares the output that a page shows with the printed one, without what differs from run to run.

/// Days as estimates name them.
const DAYS: [&str; 8] = ["tomorrow", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Returns the comparable form of a line: its words, separated by single spaces, with times, dates and names
/// of runs masked; if `is_estimated`, also without charts and days, and with numbers and durations masked.
pub(crate) fn compared(line: &str, is_estimated: bool) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| "()[],;.:".contains(c));
        let is_of = |marks: &str| {
            bare.chars().all(|c| c.is_ascii_digit() || marks.contains(c))
                && bare.contains(|c: char| marks.contains(c))
        };
        if bare.len() >= 5 && bare.contains(':') && is_of(":") {
            return word.replace(bare, "TIME");
        }
        if bare.len() == 10 && bare.matches('-').count() == 2 && is_of("-") {
            return word.replace(bare, "DATE");
        }
        masked_runs(word)
    };
    let words: Vec<String> = line.split_whitespace().map(word).collect();
    if !is_estimated {
        return words.join(" ");
    }
    // Charts and days also depend on the time.
    let is_compared = |word: &&String| {
        !word.contains(|c: char| "·░▒█".contains(c)) && !DAYS.contains(&word.trim_matches(['.', ',']))
    };
    let words = words.iter().filter(is_compared).map(|word| {
        let mut plain = String::new();
        for c in word.chars() {
            match c {
                '0'..='9' | '.' if plain.ends_with('N') => {}
                '0'..='9' => plain.push('N'),
                _ => plain.push(c),
            }
        }
        plain
    });
    without_durations(&words.collect::<Vec<_>>()).join(" ")
}

/// Returns masked words with `DURATION` for each duration, and with `DURATION ago` for `just now`: on a busy
/// machine, seconds become minutes.
fn without_durations(words: &[String]) -> Vec<&str> {
    const UNITS: [&str; 5] = ["ms", "s", "min", "h", "d"];
    let mut kept: Vec<&str> = Vec::new();
    let mut place = 0;
    while place < words.len() {
        let [word, next] =
            [Some(&words[place]), words.get(place + 1)].map(|word| word.map_or("", |word| word));
        let unit = next.trim_matches(|c: char| "(),;.".contains(c));
        let (is_time, is_now) =
            (word.ends_with('N') && UNITS.contains(&unit), word == "just" && unit == "now");
        match kept.last() {
            Some(&"DURATION") if is_time => {}
            Some(&"DURATION") if is_now => kept.push("ago"),
            _ if is_time => kept.push("DURATION"),
            _ if is_now => kept.extend(["DURATION", "ago"]),
            _ => kept.push(word),
        }
        place += if is_time || is_now { 2 } else { 1 };
    }
    kept
}

/// Returns a word with the names of runs, such as `20261122T210306-1c9a44`, masked.
fn masked_runs(word: &str) -> String {
    let letters: Vec<char> = word.chars().collect();
    let is_run = |at: &[char]| {
        at.len() >= 22
            && at[..8].iter().all(char::is_ascii_digit)
            && at[8] == 'T'
            && at[9..15].iter().all(char::is_ascii_digit)
            && at[15] == '-'
            && at[16..22].iter().all(char::is_ascii_hexdigit)
    };
    let mut masked = String::new();
    let mut place = 0;
    while place < letters.len() {
        if is_run(&letters[place..]) {
            masked.push_str("RUN");
            place += 22;
        } else {
            masked.push(letters[place]);
            place += 1;
        }
    }
    masked
}

/// Returns whether the lines equal those shown, in which `…` stands for any lines.
pub(crate) fn matches(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "…" => {
            (0..=printed.len()).any(|from| matches(rest, &printed[from..]))
        }
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(line, more)| line == first && matches(rest, more))
        }
    }
}
