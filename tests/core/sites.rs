//! Sites: where equations come from, through every transform, and no part of what programs are.

use std::cell::Cell;

use cotan::autodiff;
use cotan::opt::{Passes, optimize};
use cotan::prim::{Lines, Site, set_site_hook};
use cotan::transform::{split, vjp};
use cotan::{Array, DType, Program, Recording, ops};

thread_local! {
    static LINE: Cell<u32> = const { Cell::new(0) };
}

fn at(line: u32) {
    LINE.set(line);
    set_site_hook(|| Site::new("user.py", LINE.get(), "f"));
}

fn recorded(lines: [u32; 3]) -> Program {
    let recording = Recording::new();
    let x = Array::from_slice(&[3], &[1.0, 2.0, 3.0]).unwrap();
    let leaf = recording.leaf(&x);
    at(lines[0]);
    let y = leaf.sin().unwrap();
    at(lines[1]);
    let z = y.mul(&leaf).unwrap();
    at(lines[2]);
    let out = z.sum(..).unwrap();
    autodiff::trace(&recording, &[&out], &[leaf]).unwrap().0
}

fn lines(program: &Program) -> Vec<Option<u32>> {
    (0..program.eqns().len())
        .map(|k| program.site(k).place().map(|p| p.line))
        .collect()
}

#[test]
fn programs_that_differ_in_sites_are_equal() {
    let plain = recorded([1, 2, 3]);
    assert!(!plain.has_sites());
    let _lines = Lines::new();
    let (one, other) = (recorded([1, 2, 3]), recorded([4, 5, 6]));
    assert_eq!(lines(&one), [Some(1), Some(2), Some(3)]);
    assert_eq!(lines(&other), [Some(4), Some(5), Some(6)]);
    assert!(one == other && one == plain && one.same_structure(&other));
    assert_eq!(one.structural_hash(), plain.structural_hash());
    assert!(!one.without_sites().has_sites());
}

#[test]
fn the_reverse_pass_keeps_the_lines_of_its_primal() {
    let _lines = Lines::new();
    let joint = vjp(&recorded([1, 2, 3]), &[true]).unwrap().program;
    let joint = optimize(&joint, Passes::ALL).unwrap();
    assert!(lines(&joint).iter().all(Option::is_some), "{joint}");
    let cosine = (joint.eqns().iter())
        .position(|e| e.prim.name() == "cos")
        .unwrap();
    let place = joint.site(cosine).place().unwrap();
    assert_eq!((place.line, place.rule), (1, Some(("sin", 0))));
    let halves = split(&joint, &[false, true], 1);
    assert!(lines(&halves.late).iter().all(Option::is_some));
    assert!(lines(&halves.early).iter().all(Option::is_some));
}

#[test]
fn what_is_called_has_the_site_of_its_call_where_it_has_none() {
    let text = "program(%0: f64[]) {\n  %1: f64[] = sin(%0)\n  return %1\n}\n";
    let program = std::sync::Arc::new(Program::parse(text).unwrap());
    let recording = Recording::new();
    let leaf = recording.leaf(&Array::float(DType::F64, 0.5));
    let _lines = Lines::new();
    at(7);
    let out = Array::call(&program, std::slice::from_ref(&leaf)).remove(0);
    let traced = autodiff::trace(&recording, &[&out], &[leaf]).unwrap().0;
    assert_eq!(lines(&traced), [Some(7)]);
}

#[test]
fn places_are_stored_once() {
    let site = Site::new("a.py", 3, "f");
    assert_eq!(site, Site::new("a.py", 3, "f"));
    assert_ne!(site, Site::new("a.py", 4, "f"));
    let pulled = site.pulled(ops::SIN, 0);
    assert_eq!(pulled.place().unwrap().rule, Some(("sin", 0)));
    assert_eq!(pulled.place().unwrap().to_string(), "a.py:3");
    assert_eq!(Site::NONE.pulled(ops::SIN, 0), Site::NONE);
    assert_eq!(Site::NONE.or(site), site);
}
