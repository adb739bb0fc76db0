//! The layers of the core: which folder may import which. Only a test keeps such a rule.

use std::fs;
use std::path::Path;

/// The layers, the highest first. A file imports those below its own layer, and its own; layers on one line do not
/// know each other.
const LAYERS: [&[&str]; 16] = [
    &["lib"],
    &["api", "testing"],
    &["autodiff"],
    &["array"],
    &["inspect"],
    &["tape"],
    &["sched"],
    &["transform", "opt", "io"],
    &["program"],
    &["ops"],
    &["prim"],
    &["kernels"],
    &["aval"],
    &["interrupt"],
    &["error"],
    &["util"],
];

/// Rules write programs, and programs are of primitives: these two know each other.
const EXCEPTIONS: [(&str, &str); 1] = [("prim", "program")];

fn rank(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&layer))
}

pub(crate) fn sources(path: &Path, found: &mut Vec<(String, String)>) {
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
        let Some(own_rank) = rank(own) else {
            wrong.push(format!("{inside}: `{own}` is in no layer"));
            continue;
        };
        for import in imports(text) {
            let fine = import == own
                || own == "lib"
                || EXCEPTIONS.contains(&(own, import.as_str()))
                || rank(&import).is_none_or(|rank| rank > own_rank)
                // Random numbers, in tests.
                || import == "testing";
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
