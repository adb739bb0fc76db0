//! The layers of the bindings: which folder may import which, and that no files import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::layers::sources;

/// The folders from top to bottom: each may import those below it, and itself.
const ORDER: [&str; 9] = [
    "prepare",
    "transforms",
    "program",
    "interpose",
    "functions",
    "tree",
    "array",
    "ndarray",
    "runtime",
];

/// Files by their path inside of the crate, such as `array/cell`, with what each imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Without comments: they may name what stands above.
fn code(text: &str) -> String {
    let lines = text.lines().map(|l| l.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths in a text that begin with `crate::`, those of `use crate::{a::b, c::{d, e}}` one by one.
fn paths(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, prefix) in text.match_indices("crate::") {
        spelled_out("", &text[at + prefix.len()..], &mut found);
    }
    found
}

/// Adds the paths that begin with `head` and go on with what a text begins with; gives the rest of the text.
fn spelled_out<'a>(head: &str, text: &'a str, found: &mut Vec<String>) -> &'a str {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let text = text.trim_start();
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let path = format!("{head}{}", &text[..end]);
    let Some(mut rest) = text[end..].strip_prefix('{') else {
        found.push(path);
        return &text[end..];
    };
    loop {
        rest = spelled_out(&path, rest, found).trim_start();
        match rest.strip_prefix(',') {
            Some(more) if !more.trim_start().starts_with('}') => rest = more,
            Some(more) => return &more.trim_start()[1..],
            None => return rest.strip_prefix('}').unwrap_or(rest),
        }
    }
}

/// Which file of the bindings imports which. Files that only list modules do not count.
fn graph() -> Graph {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/py/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let name = |path: &str| {
        let inside = path.strip_prefix(&root.display().to_string()).unwrap();
        inside.trim_matches('/').trim_end_matches(".rs").to_string()
    };
    let texts: BTreeMap<String, String> = (files.iter())
        .map(|(path, text)| (name(path), code(text)))
        .filter(|(name, _)| name != "lib" && !name.ends_with("/mod"))
        .collect();
    assert!(texts.len() > 70, "the sources are not where they were");
    let imports = |name: &String, text: &String| {
        let two = |path: String| path.splitn(3, "::").take(2).collect::<Vec<_>>().join("/");
        let files = paths(text).into_iter().map(two);
        files.filter(|file| file != name).collect::<BTreeSet<_>>()
    };
    (texts.iter())
        .map(|(name, text)| (name.clone(), imports(name, text)))
        .collect()
}

#[test]
fn imports_of_the_bindings_point_down() {
    let place = |file: &str| {
        let folder = file.split('/').next().unwrap_or("");
        ORDER.iter().position(|f| *f == folder)
    };
    let graph = graph();
    let mut wrong = Vec::new();
    for (file, imports) in &graph {
        assert!(place(file).is_some(), "{file} is in no layer");
        for import in imports {
            if !graph.contains_key(import) {
                wrong.push(format!("{file}: imports `{import}`, which is no file"));
            } else if place(import) < place(file) {
                wrong.push(format!("{file}: imports `{import}`, which is above it"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "against the layers:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn no_files_of_the_bindings_import_each_other() {
    let mut graph = graph();
    // What imports nothing that is left is on no circle.
    loop {
        let done: Vec<String> = (graph.iter())
            .filter(|(_, imports)| !imports.iter().any(|i| graph.contains_key(i)))
            .map(|(file, _)| file.clone())
            .collect();
        if done.is_empty() {
            break;
        }
        graph.retain(|file, _| !done.contains(file));
    }
    // Nor is what nothing imports that is left.
    loop {
        let imported: BTreeSet<String> = graph.values().flatten().cloned().collect();
        let count = graph.len();
        graph.retain(|file, _| imported.contains(file));
        if graph.len() == count {
            break;
        }
    }
    let files: Vec<&String> = graph.keys().collect();
    assert!(files.is_empty(), "circles of imports: {files:?}");
}

/// Rust names Python in one place: by its hooks.
#[test]
fn the_bindings_name_no_module_of_the_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/py/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    for (path, text) in files {
        assert!(!code(&text).contains("\"cotan._src"), "{path}");
    }
}
