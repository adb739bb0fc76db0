//! The source of a crate as a graph: which file uses names of which other file.
//!
//! Names are followed as the compiler follows them: relative paths, lists of `use`, globs and re-exports lead to
//! the file that defines a name. A re-export alone is no use. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// All files of Rust below a folder: path and text.
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

/// That unsafe code is in allowed files only, and says why it is sound.
pub(crate) fn assert_unsafe_is_fenced(root: &Path, is_allowed: impl Fn(&str) -> bool) {
    let mut files = Vec::new();
    sources(root, &mut files);
    for (path, text) in files {
        let is_unsafe = |line: &str| {
            let code = line.split("//").next().unwrap_or("");
            let kinds = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"];
            kinds.iter().any(|kind| code.contains(kind))
        };
        if text.lines().any(is_unsafe) {
            assert!(is_allowed(&path), "{path}: unsafe code outside its fence");
            assert!(
                text.contains("SAFETY") || text.contains("# Safety"),
                "{path}: unsafe code without its reason"
            );
        }
    }
}

/// That every file says on its first line what it is, and that none but tables grows without bound.
pub(crate) fn assert_files_are_readable(
    root: &Path,
    longest: usize,
    is_table: impl Fn(&str) -> bool,
) {
    let mut files = Vec::new();
    sources(root, &mut files);
    for (path, text) in files {
        let is_test = path.ends_with("tests.rs");
        assert!(
            is_test || text.starts_with("//!"),
            "{path}: does not open with //!"
        );
        let lines = text.lines().count();
        assert!(
            lines <= longest || is_test || is_table(&path),
            "{path}: {lines} lines"
        );
    }
}

/// Files by name, such as `kernels/gemm` or `lib`, with those that each uses names of.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The graph of the crate whose root is in this folder.
pub(crate) fn graph(root: &Path) -> Graph {
    let mut found = Vec::new();
    sources(root, &mut found);
    let mut tree = Tree::default();
    for (path, text) in &found {
        let inside = path.strip_prefix(&root.display().to_string()).unwrap();
        let mut module: Module = inside
            .trim_matches('/')
            .trim_end_matches(".rs")
            .split('/')
            .map(str::to_string)
            .collect();
        if module
            .last()
            .is_some_and(|last| last == "mod" || last == "lib")
        {
            module.pop();
        }
        tree.files.insert(module, File::read(&tokens(text)));
    }
    tree.forget_tests();
    tree.resolve_uses();
    tree.edges()
}

/// The folder of a file, or the file itself at the root.
fn layer(file: &str) -> &str {
    file.split('/').next().unwrap_or("")
}

/// That files use layers below their own alone, and their own. Layers are listed from the highest; those of one row do
/// not know each other. An exception is a layer and a higher one that it may use.
pub(crate) fn assert_layered(graph: &Graph, layers: &[&[&str]], exceptions: &[(&str, &str)]) {
    let rank = |layer: &str| layers.iter().position(|names| names.contains(&layer));
    let mut wrong = Vec::new();
    for (file, used) in graph {
        let own = layer(file);
        let Some(own_rank) = rank(own) else {
            wrong.push(format!("{file} is in no layer"));
            continue;
        };
        for other in used {
            let layer = layer(other);
            let is_below = rank(layer).is_some_and(|rank| rank > own_rank);
            if layer != own && !is_below && !exceptions.contains(&(own, layer)) {
                wrong.push(format!("{file} uses {other}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "against the layers:\n{}",
        wrong.join("\n")
    );
}

/// That no files use each other, directly or by way of others. Layers that may know each other may have such circles
/// among themselves.
pub(crate) fn assert_no_circles(graph: &Graph, exceptions: &[(&str, &str)]) {
    let is_excepted = |file: &String| {
        let own = layer(file);
        exceptions.iter().any(|(a, b)| *a == own || *b == own)
    };
    let mut shown: Vec<String> = Vec::new();
    for circle in circles(graph) {
        if circle.iter().all(is_excepted) {
            continue;
        }
        for file in &circle {
            let used = graph[file].iter().filter(|other| circle.contains(other));
            shown.push(format!("{file} uses {:?}", used.collect::<Vec<_>>()));
        }
        shown.push(String::new());
    }
    assert!(shown.is_empty(), "circles of files:\n{}", shown.join("\n"));
}

/// Sets of several files each of which uses, perhaps by way of others, every other one.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut work: Vec<&String> = graph[from].iter().collect();
        while let Some(file) = work.pop() {
            if seen.insert(file) {
                work.extend(&graph[file]);
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|file| (file, reached(file))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for file in graph.keys() {
        let circle: Vec<String> = (reached[file].iter())
            .filter(|other| reached[**other].contains(file))
            .map(|other| (*other).clone())
            .collect();
        if circle.first() == Some(file) && circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}

/// The path of a module inside of its crate.
type Module = Vec<String>;

/// One name that a `use` brings: `*` for all of a module.
struct Use {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// What a file defines and uses.
#[derive(Default)]
struct File {
    items: BTreeSet<String>,
    public: BTreeSet<String>,
    macros: BTreeSet<String>,
    uses: Vec<Use>,
    /// Paths outside of `use`, each in parts.
    paths: BTreeSet<Vec<String>>,
    /// Modules that only tests have.
    tests: BTreeSet<String>,
}

#[derive(Default)]
struct Tree {
    files: BTreeMap<Module, File>,
}

impl Tree {
    fn forget_tests(&mut self) {
        let mut tests: Vec<Module> = Vec::new();
        for (module, file) in &self.files {
            for test in &file.tests {
                tests.push(module.iter().chain([test]).cloned().collect());
            }
        }
        self.files
            .retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    }

    /// A path inside of the crate; `None` for one of another crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&module[..0], &path[1..]),
            "self" => (&module[..], &path[1..]),
            "super" => (&module[..module.len().checked_sub(ups)?], &path[ups..]),
            first => {
                let child: Module = module.iter().cloned().chain([first.to_string()]).collect();
                self.files.get(&child)?;
                (&module[..], path)
            }
        };
        Some(base.iter().chain(rest).cloned().collect())
    }

    fn resolve_uses(&mut self) {
        let modules: Vec<Module> = self.files.keys().cloned().collect();
        for module in modules {
            let mut uses = std::mem::take(&mut self.files.get_mut(&module).unwrap().uses);
            uses.retain_mut(|u| match self.absolute(&module, &u.path) {
                Some(path) => {
                    u.path = path;
                    true
                }
                None => false,
            });
            self.files.get_mut(&module).unwrap().uses = uses;
        }
    }

    /// The file that defines what a path names.
    fn definer(&self, path: &[String], depth: usize) -> Option<Module> {
        let deepest = (0..=path.len())
            .rev()
            .find(|&k| self.files.contains_key(&path[..k]))?;
        let module = path[..deepest].to_vec();
        match path.get(deepest) {
            None => Some(module),
            Some(name) => self
                .lookup(&module, name, depth, depth > 0)
                .or_else(|| self.by_macro(name)),
        }
    }

    /// Macros that are exported are names of the root.
    fn by_macro(&self, name: &str) -> Option<Module> {
        let has = |file: &File| file.macros.contains(name);
        (self.files.iter())
            .find(|(_, file)| has(file))
            .map(|(module, _)| module.clone())
    }

    /// The file that defines a name of a module, which may re-export it.
    fn lookup(&self, module: &Module, name: &str, depth: usize, outside: bool) -> Option<Module> {
        if depth > 8 {
            return None;
        }
        let file = &self.files[module];
        if (if outside { &file.public } else { &file.items }).contains(name) {
            return Some(module.clone());
        }
        let visible = || file.uses.iter().filter(|u| u.is_public || !outside);
        let named = visible().filter(|u| u.name == name && !self.files.contains_key(&u.path));
        let mut found = named.filter_map(|u| self.definer(&u.path, depth + 1));
        found.next().or_else(|| {
            let mut globs = visible().filter(|u| u.name == "*" && self.files.contains_key(&u.path));
            globs.find_map(|u| self.lookup(&u.path, name, depth + 1, true))
        })
    }

    fn edges(&self) -> Graph {
        let name = |module: &Module| match module.as_slice() {
            [] => "lib".to_string(),
            parts => parts.join("/"),
        };
        (self.files.iter())
            .map(|(module, file)| {
                let used = self.used(module, file);
                let used = used.iter().filter(|other| *other != module).map(name);
                (name(module), used.collect())
            })
            .collect()
    }

    fn used(&self, module: &Module, file: &File) -> BTreeSet<Module> {
        let mut used = BTreeSet::new();
        let of = |path: &[String]| {
            let deepest = || {
                let parts = (0..=path.len()).rev().map(|k| path[..k].to_vec());
                let mut known = parts.filter(|m| self.files.contains_key(m));
                known.next().unwrap_or_default()
            };
            self.definer(path, 0).unwrap_or_else(deepest)
        };
        let heads: BTreeSet<&String> = file.paths.iter().map(|p| &p[0]).collect();
        let is_module = |path: &Module| self.files.contains_key(path);
        for u in file.uses.iter().filter(|u| u.name != "*") {
            let is_used =
                !u.is_public || (heads.contains(&u.name) && !file.items.contains(&u.name));
            if is_used && !is_module(&u.path) {
                used.insert(of(&u.path));
            }
        }
        for path in &file.paths {
            let bound = file.uses.iter().find(|u| u.name == path[0]);
            match (self.absolute(module, path), bound) {
                // A lone `super` is of a `pub(super)`.
                (Some(_), _) if path.len() == 1 => {}
                (Some(path), _) => {
                    used.insert(of(&path));
                }
                (_, Some(u)) if path.len() > 1 && is_module(&u.path) => {
                    used.insert(of(&[u.path.clone(), path[1..].to_vec()].concat()));
                }
                (_, None) if !file.items.contains(&path[0]) => {
                    let globs = file.uses.iter().filter(|u| u.name == "*");
                    let globs = globs.filter(|u| is_module(&u.path));
                    let found = globs.filter_map(|u| self.lookup(&u.path, &path[0], 0, true));
                    used.extend(found);
                }
                _ => {}
            }
        }
        used
    }
}

impl File {
    fn read(tokens: &[String]) -> File {
        let mut file = File::default();
        let at = |i: usize| tokens.get(i).map_or("", String::as_str);
        // How deep in braces we are, and at which depths modules inside of this file begin.
        let (mut depth, mut inside) = (0, Vec::new());
        let mut i = 0;
        while i < tokens.len() {
            match at(i) {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inside.pop_if(|began| *began == depth);
                }
                "mod" if at(i + 2) == "{" => inside.push(depth),
                "#" if tokens[i..]
                    .iter()
                    .take(7)
                    .eq(&["#", "[", "cfg", "(", "test", ")", "]"]) =>
                {
                    let end = end_of_item(tokens, i + 7);
                    let item = &tokens[i + 7..end];
                    let mut words = item.iter().skip_while(|t| *t != "mod");
                    file.tests.extend(words.nth(1).cloned());
                    i = end;
                    continue;
                }
                "use" => {
                    let end = (i..tokens.len())
                        .find(|&k| at(k) == ";")
                        .unwrap_or(tokens.len());
                    let is_public = i > 0 && matches!(at(i - 1), "pub" | ")");
                    file.add_uses(
                        &mut outside(&tokens[i + 1..end], inside.len()),
                        &[],
                        is_public,
                    );
                    i = end;
                    continue;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => {
                    let mut first = i;
                    while first > 0 && matches!(at(first - 1), "const" | "unsafe" | "async" | ")") {
                        // Back over `pub(crate)` too.
                        first -= if at(first - 1) == ")" {
                            4.min(first)
                        } else {
                            1
                        };
                        if at(first) == "pub" {
                            break;
                        }
                    }
                    let is_public = at(first) == "pub" || (first > 0 && at(first - 1) == "pub");
                    file.define(at(i + 1), is_public);
                }
                "macro_rules" => {
                    file.macros.insert(at(i + 2).to_string());
                    file.define(at(i + 2), true);
                }
                // An entry of the table of primitives: `NAME name(arguments) {`.
                name if matches!(at(i.wrapping_sub(1)), "{" | "}")
                    && is_word(at(i + 1))
                    && at(i + 2) == "("
                    && name
                        .chars()
                        .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') =>
                {
                    file.define(name, true);
                }
                _ => {}
            }
            let before = at(i.wrapping_sub(1));
            let is_visibility = before == "in" && at(i.wrapping_sub(2)) == "(";
            if is_word(at(i)) && !matches!(before, "." | "::" | "$" | "mod") && !is_visibility {
                let mut path = vec![at(i).to_string()];
                let mut k = i;
                while at(k + 1) == "::" && is_word(at(k + 2)) {
                    path.push(at(k + 2).to_string());
                    k += 2;
                }
                let path = outside(&path, inside.len());
                file.paths.extend((!path.is_empty()).then(|| path.to_vec()));
            }
            i += 1;
        }
        file
    }

    fn define(&mut self, name: &str, is_public: bool) {
        if is_word(name) && !matches!(name, "fn" | "unsafe" | "mut") {
            self.items.insert(name.to_string());
            if is_public {
                self.public.insert(name.to_string());
            }
        }
    }

    /// Adds what a tree of `use` brings: `a::{b, c::*, d as e}`.
    fn add_uses(&mut self, rest: &mut &[String], head: &[String], is_public: bool) {
        let mut path = head.to_vec();
        let mut name = None;
        while let Some((token, more)) = rest.split_first() {
            match token.as_str() {
                "{" => {
                    *rest = more;
                    while rest.first().is_some_and(|t| t != "}") {
                        self.add_uses(rest, &path, is_public);
                        if rest.first().is_some_and(|t| t == ",") {
                            *rest = &rest[1..];
                        }
                    }
                    *rest = rest.get(1..).unwrap_or(&[]);
                    return;
                }
                "," | "}" => break,
                "::" => {}
                "as" => {
                    name = more.first().cloned();
                    *rest = &more[1..];
                    continue;
                }
                "self" if !path.is_empty() => {}
                part => path.push(part.to_string()),
            }
            *rest = more;
        }
        let Some(last) = path.last().cloned() else {
            return;
        };
        if last == "*" {
            path.pop();
        }
        let name = name.unwrap_or(last);
        self.uses.push(Use {
            name,
            path,
            is_public,
        });
    }
}

/// A path of a module inside of a file, as the file would write it: so many `super` fewer.
fn outside(mut path: &[String], mut modules: usize) -> &[String] {
    while modules > 0 && path.first().is_some_and(|part| part == "super") {
        path = &path[1..];
        path = if path.first().is_some_and(|part| part == "::") {
            &path[1..]
        } else {
            path
        };
        modules -= 1;
    }
    path
}

/// Behind an item: its semicolon, or the brace that closes it.
fn end_of_item(tokens: &[String], start: usize) -> usize {
    let mut depth = 0;
    for (k, token) in tokens.iter().enumerate().skip(start) {
        match token.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => return k + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return k + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The words and signs of a text, without comments, strings, characters and lifetimes.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(raw) = raw_string(rest) {
            raw
        } else if first == '"' {
            string(rest)
        } else if first == '\'' {
            character(rest)
        } else if word > 0 {
            found.push(rest[..word].to_string());
            word
        } else if rest.starts_with("::") {
            found.push("::".to_string());
            2
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[len..];
    }
    found
}

/// The length of the string that a text begins with.
fn string(text: &str) -> usize {
    let mut escaped = true;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return at + 1,
            '\\' if !escaped => escaped = true,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The same of a raw one, `r#"..."#`, if it is one.
fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or(text.strip_prefix('r'))?;
    let marks = body.len() - body.trim_start_matches('#').len();
    body[marks..].starts_with('"').then(|| {
        let end = format!("\"{}", "#".repeat(marks));
        let start = text.len() - body.len() + marks + 1;
        text[start..]
            .find(&end)
            .map_or(text.len(), |at| start + at + end.len())
    })
}

/// The length of the character or lifetime that a text begins with.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            let end = text[3..].find('\'').map_or(text.len(), |at| at + 4);
            end.min(text.len())
        }
        Some((_, c)) if text[1 + c.len_utf8()..].starts_with('\'') => 2 + c.len_utf8(),
        _ => {
            let word = text[1..].find(|c: char| !c.is_alphanumeric() && c != '_');
            word.map_or(text.len(), |at| at + 1)
        }
    }
}
