//! The layers of the core: which folder may import which. Only a test keeps such a rule.

use std::path::{Path, PathBuf};

use crate::source_tree::{
    assert_files_are_readable, assert_layered, assert_no_circles, assert_unsafe_is_fenced, graph,
};

/// The layers, the highest first. A file imports those below its own layer, and its own; layers on one line do not
/// know each other.
const LAYERS: [&[&str]; 17] = [
    &["lib"],
    &["api", "testing"],
    &["autodiff"],
    &["array"],
    &["inspect"],
    &["tape"],
    &["sparsity"],
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

/// The source of the core.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/core/src")
}

#[test]
fn imports_follow_the_layers() {
    let graph = graph(&root());
    assert!(graph.len() > 150, "the sources are not where they were");
    assert_layered(&graph, &LAYERS, &EXCEPTIONS);
}

/// Two files that use each other are one, and can neither be understood nor tested alone.
#[test]
fn no_files_use_each_other() {
    assert_no_circles(&graph(&root()), &EXCEPTIONS);
}

/// Unsafe code is in the kernels only, and each file says why it is sound.
#[test]
fn unsafe_code_is_in_the_kernels() {
    assert_unsafe_is_fenced(&root(), |path| path.contains("/kernels/"));
}

/// Every file says on its first line what it is, and none grows without bound.
#[test]
fn files_open_with_what_they_are() {
    assert_files_are_readable(&root(), 600, |path| {
        path.contains("/ops/") || path.contains("/kernels/")
    });
}
