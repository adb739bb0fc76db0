//! The layers of the bindings: which folder may import which, that no files import each other in a circle, and what
//! every file keeps to.

use std::path::{Path, PathBuf};

use crate::source_tree::{
    assert_files_are_readable, assert_layered, assert_no_circles, assert_unsafe_is_fenced, graph,
    sources,
};

/// The folders from top to bottom: each may import those below it, and itself.
const LAYERS: [&[&str]; 11] = [
    &["lib"],
    &["prepare"],
    &["transforms"],
    &["program"],
    &["interpose"],
    &["functions"],
    &["tree"],
    &["solvers"],
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

/// Unsafe code is where memory is shared with NumPy and others, where the process forks, where entries of libraries are
/// overridden, where scalars get the class of their kind, and where the interpreter is asked for the fields of an object,
/// a class, a frame or a context; each file says why it is sound.
#[test]
fn unsafe_code_of_the_bindings_is_fenced() {
    let allowed = [
        "/array/memory.rs",
        "/array/pyclass.rs",
        "/array/scalar_classes.rs",
        "/interpose/",
        "/ndarray/export.rs",
        "/ndarray/memory.rs",
        "/ndarray/strided_view.rs",
        "/ndarray/vectors.rs",
        "/runtime/context_variable.rs",
        "/runtime/fork.rs",
        "/runtime/frame.rs",
        "/runtime/slots.rs",
        "/runtime/threads.rs",
        "/runtime/type_object.rs",
    ];
    assert_unsafe_is_fenced(&root(), |path| allowed.iter().any(|a| path.contains(a)));
}

/// Every file says on its first line what it is, and none grows without bound but the table of the methods of `Array`.
#[test]
fn files_of_the_bindings_open_with_what_they_are() {
    assert_files_are_readable(&root(), 600, |path| path.ends_with("/array/pyclass.rs"));
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
