//! The layers of the core: which folder may import which. Only a test keeps such a rule.

use std::fs;
use std::path::Path;

/// A folder or file of the source, and what it may import besides itself, `error`, `interrupt`, `aval` and,
/// in tests, `random`.
const MAY_IMPORT: [(&str, &[&str]); 14] = [
    ("error", &[]),
    ("interrupt", &[]),
    ("random", &[]),
    ("aval", &[]),
    ("kernels", &[]),
    // Entries of the table name kernels; nothing else here does. Their rules write programs, and programs are of
    // primitives: these two know each other.
    ("prim", &["kernels", "program"]),
    ("ops", &["kernels", "prim"]),
    ("program", &["kernels", "prim", "ops"]),
    ("transform", &["prim", "ops", "program"]),
    ("opt", &["prim", "ops", "program"]),
    ("io", &["kernels", "prim", "ops", "program"]),
    ("sched", &["kernels", "prim", "ops", "program", "opt"]),
    (
        "array",
        &[
            "kernels",
            "prim",
            "ops",
            "program",
            "transform",
            "opt",
            "sched",
            "io",
        ],
    ),
    ("api", &["program", "array", "io"]),
];

/// What may import everything: the root, which only re-exports, and the harness of the tests.
const FREE: [&str; 2] = ["lib", "testing"];

fn sources(path: &Path, found: &mut Vec<(String, String)>) {
    let mut entries: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            found.push((
                entry.display().to_string(),
                fs::read_to_string(&entry).unwrap(),
            ));
        }
    }
}

/// The names that follow `crate::` in a text: of `use crate::{a, b::c}` too.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        if text[..at].ends_with('$') {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or(""),
            None => rest
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
                .unwrap_or(""),
        };
        let first = |item: &str| item.trim().split(':').next().unwrap_or("").to_string();
        found.extend(list.split(',').map(first).filter(|name| !name.is_empty()));
    }
    found
}

#[test]
fn imports_follow_the_layers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/core/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 30, "the sources are not where they were");
    let mut wrong = Vec::new();
    for (path, text) in &files {
        let inside = path
            .strip_prefix(&root.display().to_string())
            .unwrap()
            .trim_start_matches('/');
        let own = inside.split(['/', '.']).next().unwrap();
        if FREE.contains(&own) {
            continue;
        }
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == own) else {
            // Layers that are not there yet (a graphics processor, file formats) state theirs then.
            wrong.push(format!("{inside}: `{own}` is in no layer"));
            continue;
        };
        for import in imports(text) {
            let fine = import == own
                || matches!(import.as_str(), "error" | "interrupt" | "aval" | "random")
                || allowed.contains(&import.as_str())
                // The macro that stamps functions from the table.
                || import == "for_each_elementwise";
            if !fine {
                wrong.push(format!("{inside}: imports `{import}`"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "against the layers:\n{}",
        wrong.join("\n")
    );
}

/// Unsafe code is in the kernels only, and each block says why it is sound.
#[test]
fn unsafe_code_is_in_the_kernels() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/core/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    for (path, text) in files {
        let blocks = text
            .lines()
            .filter(|l| l.contains("unsafe {") && !l.trim_start().starts_with("//"));
        let count = blocks.count();
        assert!(
            count == 0 || path.contains("/kernels/"),
            "{path}: unsafe code outside the kernels"
        );
        assert!(
            count == 0 || text.contains("SAFETY"),
            "{path}: unsafe code without its reason"
        );
    }
}

/// Every file says on its first line what it is, and none grows without bound.
#[test]
fn files_open_with_what_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/core/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    for (path, text) in files {
        let is_test = path.ends_with("tests.rs");
        assert!(
            is_test || text.starts_with("//!"),
            "{path}: does not open with //!"
        );
        let lines = text.lines().count();
        let table = path.contains("/ops/") || path.contains("/kernels/") || is_test;
        assert!(lines < 700 || table, "{path}: {lines} lines");
    }
}
