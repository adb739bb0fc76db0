//! The text of programs: what is accepted prints as a text that gives the same program.
#![no_main]

use cotan::Program;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(program) = Program::parse(text) else {
        return;
    };
    let printed = program.to_string();
    let again = Program::parse(&printed).expect("what is printed can be parsed");
    assert_eq!(printed, again.to_string());
});
