//! Parts of texts of programs: names, comments, and hints in errors.

use std::fmt;

/// How many bytes at the beginning of a text are a path that needs no quotes: a name, then attributes,
/// indices and keys, as `model.layers[0]['first bias']`. None is 0.
pub(super) fn bare(text: &str) -> usize {
    let mut end = word_end(text);
    loop {
        let rest = &text[end..];
        let more = match rest.as_bytes() {
            _ if end == 0 => 0,
            [b'.', ..] => match word_end(&rest[1..]) {
                0 => 0,
                n => n + 1,
            },
            [b'[', quote @ (b'\'' | b'"'), ..] => {
                let plain = |c: char| !c.is_control() && c != '\\' && c != char::from(*quote);
                let n = rest[2..].find(|c| !plain(c)).map_or(0, |n| n + 2);
                let closed = rest.as_bytes()[n..].get(..2) == Some(&[*quote, b']']);
                if n > 0 && closed { n + 2 } else { 0 }
            }
            [b'[', ..] => {
                let n = rest[1..]
                    .find(|c: char| !c.is_ascii_digit())
                    .map_or(0, |n| n + 1);
                let closed = rest[n..].starts_with(']');
                if n > 1 && closed { n + 1 } else { 0 }
            }
            _ => 0,
        };
        if more == 0 {
            return end;
        }
        end += more;
    }
}

/// Where a name ends: letters, digits and underscores, a digit not first.
fn word_end(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len())
}

/// A name behind a number.
pub(super) fn quoted(name: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    format!(" \"{}\"", name.escape_debug())
}

/// A comment cannot go on in the next line.
pub(super) fn one_line(comment: String) -> String {
    if comment.contains(char::is_control) {
        return comment.escape_debug().to_string();
    }
    comment
}

pub(super) fn write_comment(f: &mut impl fmt::Write, comment: Option<String>) -> fmt::Result {
    match comment {
        Some(comment) => writeln!(f, "  # {comment}"),
        None => f.write_str("\n"),
    }
}

/// A line of text with a mark below one of its characters. Of a long line only what is around it.
pub(super) fn pointed_at(line: &str, at: usize) -> String {
    const BEFORE: usize = 60;
    const SHOWN: usize = 100;
    let skipped = at.saturating_sub(BEFORE);
    let shown = line.chars().skip(skipped).take(SHOWN);
    let shown: String = shown
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let dots = if skipped > 0 { "..." } else { "" };
    let mark = " ".repeat(at - skipped + dots.len());
    format!("  {dots}{shown}\n  {mark}^")
}

/// A hint at the name that was probably meant.
pub(super) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    const LONG: usize = 60;
    if name.len() > LONG {
        return String::new();
    }
    let names = names.filter(|n| n.len() <= LONG);
    let close = names.map(|n| (distance(name, n), n)).min();
    match close.filter(|(d, _)| *d <= 1 + name.len() / 4) {
        Some((_, found)) => format!("; did you mean `{found}`?"),
        None => String::new(),
    }
}

/// How many letters must be changed, added or left out to make one word of another (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
