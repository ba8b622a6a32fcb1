//! Constraints: the nodes with the features that a job requires.

use std::collections::BTreeSet;

use hsched_model::{Asks, NodeName};

/// Words, signs and brackets of a constraint.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Name(&'a str),
    And,
    Or,
    Open,
    Close,
}

/// Features joined by `&` and `|`.
#[derive(Clone, Debug, PartialEq)]
enum Features<'a> {
    Name(&'a str),
    All(Box<(Features<'a>, Features<'a>)>),
    Any(Box<(Features<'a>, Features<'a>)>),
}

/// Returns whether [`meets`] interprets a constraint exactly: names joined by `&`, `,` and `|`, with
/// parentheses where needed. Counts (`a*2`) and nodes that must share one of several features (`[a|b]`) are
/// not interpreted exactly.
pub fn is_plain_constraint(constraint: &str) -> bool {
    parse(constraint).is_some()
}

/// Returns whether a node with these features meets a constraint.
///
/// A condition beyond single nodes counts as met by any of its names, so the job may appear to have more
/// nodes to choose from than it has.
pub fn meets(constraint: &str, features: &BTreeSet<String>) -> bool {
    if let Some(parsed) = parse(constraint) {
        return parsed.is_met(features);
    }
    let text: String = constraint.chars().filter(|c| !matches!(c, '[' | ']' | '(' | ')' | ' ')).collect();
    let is_met = |word: &str| {
        let name = word.split('*').next().unwrap_or_default();
        name.is_empty() || features.contains(name)
    };
    // Each counted feature is required on only some of the nodes.
    if text.contains('*') {
        return text.split(['&', ',', '|']).any(is_met);
    }
    text.split('|').any(|all| all.split(['&', ',']).all(is_met))
}

fn parse(text: &str) -> Option<Features<'_>> {
    let tokens = tokens(text)?;
    let (features, rest) = joined(&tokens)?;
    rest.is_empty().then_some(features)
}

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut list = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '&' | ',' | '|' | '(' | ')' => 1,
            '[' | ']' | '*' | '!' => return None,
            _ => rest.find(['&', ',', '|', '(', ')', '[', ']', '*', ' ']).unwrap_or(rest.len()),
        };
        list.push(match first {
            '&' | ',' => Token::And,
            '|' => Token::Or,
            '(' => Token::Open,
            ')' => Token::Close,
            _ => Token::Name(&rest[..length]),
        });
        rest = rest[length..].trim_start();
    }
    Some(list)
}

/// Reads names from left to right, as Slurm does: `a|b&c` is `(a|b)&c`.
fn joined<'a, 'b>(tokens: &'b [Token<'a>]) -> Option<(Features<'a>, &'b [Token<'a>])> {
    let (mut left, mut rest) = single(tokens)?;
    while let [sign @ (Token::And | Token::Or), after @ ..] = rest {
        let (right, after) = single(after)?;
        let pair = Box::new((left, right));
        left = if *sign == Token::And { Features::All(pair) } else { Features::Any(pair) };
        rest = after;
    }
    Some((left, rest))
}

fn single<'a, 'b>(tokens: &'b [Token<'a>]) -> Option<(Features<'a>, &'b [Token<'a>])> {
    match tokens {
        [Token::Name(name), rest @ ..] => Some((Features::Name(name), rest)),
        [Token::Open, rest @ ..] => match joined(rest)? {
            (inner, [Token::Close, rest @ ..]) => Some((inner, rest)),
            _ => None,
        },
        _ => None,
    }
}

impl Features<'_> {
    fn is_met(&self, features: &BTreeSet<String>) -> bool {
        match self {
            Self::Name(name) => features.contains(*name),
            Self::All(pair) => pair.0.is_met(features) && pair.1.is_met(features),
            Self::Any(pair) => pair.0.is_met(features) || pair.1.is_met(features),
        }
    }
}

/// Returns whether a job may use a node according to its node list: a job that requests more nodes than it
/// lists may use other nodes as well.
pub(crate) fn may_use(asks: &Asks, name: &NodeName) -> bool {
    let is_complete = asks.nodelist.len() >= usize::try_from(asks.nodes.max(1)).unwrap_or(usize::MAX);
    !is_complete || asks.nodelist.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_is_met_by_one_of_its_alternatives() {
        let here: BTreeSet<String> = ["a100", "ib"].map(str::to_owned).into();
        let plain =
            ["a100", "a100&ib", "a100,ib", "v100|a100", "v100&ib|ib", "(v100|a100)&ib", "v100|a100&ib"];
        for met in plain {
            assert!(is_plain_constraint(met) && meets(met, &here), "{met}");
        }
        for unmet in ["v100", "a100&v100", "v100|t4", "a100|ib&t4", "(a100&ib)&(t4|v100)"] {
            assert!(is_plain_constraint(unmet) && !meets(unmet, &here), "{unmet}");
        }
        for loose in ["[v100|a100]", "a100*2", "[v100*1&a100*2]"] {
            assert!(!is_plain_constraint(loose) && meets(loose, &here), "{loose}");
        }
        for odd in ["", "a|", "(a", "a b", "&"] {
            assert!(!is_plain_constraint(odd), "{odd}");
        }
        assert!(!meets("v100*2", &here) && meets("", &here));
    }
}
