//! The layers of the bindings: which folder may import which, and that no files import each other in a circle.

use std::path::{Path, PathBuf};

use crate::source_tree::{assert_layered, assert_no_circles, graph, sources};

/// The folders from top to bottom: each may import those below it, and itself.
const LAYERS: [&[&str]; 10] = [
    &["lib"],
    &["prepare"],
    &["transforms"],
    &["program"],
    &["interpose"],
    &["functions"],
    &["tree"],
    &["array"],
    &["ndarray"],
    &["runtime"],
];

/// The source of the bindings.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/py/src")
}

#[test]
fn imports_of_the_bindings_point_down() {
    let graph = graph(&root());
    assert!(graph.len() > 70, "the sources are not where they were");
    assert_layered(&graph, &LAYERS, &[]);
}

#[test]
fn no_files_of_the_bindings_import_each_other() {
    assert_no_circles(&graph(&root()), &[]);
}

/// Rust names Python in one place: by its hooks.
#[test]
fn the_bindings_name_no_module_of_the_package() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    for (path, text) in files {
        // Comments may name what stands above.
        let code = text.lines().map(|l| l.split("//").next().unwrap_or(""));
        let is_free = !code.collect::<String>().contains("\"cotan._src");
        assert!(is_free, "{path}");
    }
}
