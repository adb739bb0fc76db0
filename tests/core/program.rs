//! Programs: well-formedness, text, editing.

use cotan::kernels::Value;
use cotan::prim::Params;
use cotan::program::Builder;
use cotan::{Array, Aval, DType, Program, ops, testing};

const TEXT: &str = "\
program(%x: f64[3], %c: f64[3]) {
  %2: f64[3] = sin(%x)
  %3: f64[3] = cos(%c)
  %4: f64[3] = mul(%2, %3)
  %5: f64[] = sum[axes=(0,)](%4)
  return %5 \"y\"
}
";

#[test]
fn text_is_read_and_written() {
    let program = Program::parse(TEXT).unwrap();
    assert_eq!(program.to_string(), TEXT);
    program.verify().unwrap();
    let comment = TEXT.replace("  return", "  # the value\n  return");
    assert_eq!(Program::parse(&comment).unwrap(), program);
}

#[test]
fn names_are_escaped() {
    let builder = Builder::new();
    let x = builder.input("a \"quoted\" name\n\u{e9} \\ %", &Aval::scalar(DType::F32));
    let program = builder.finish(vec![x]).unwrap();
    assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
}

#[test]
fn literals_keep_their_bits() {
    for value in [
        0.1,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        5e-324,
        f64::MAX,
    ] {
        for dtype in [DType::F64, DType::F32, DType::C128] {
            let program =
                testing::single(ops::LITERAL, &Params::literal(dtype, value), &[]).unwrap();
            assert_eq!(
                Program::parse(&program.to_string()).unwrap(),
                program,
                "{program}"
            );
        }
    }
}

/// Each broken text with the line, the column and a word of the message.
#[test]
fn errors_of_the_parser_say_where() {
    let cases = [
        ("progam(", 1, 1, "program"),
        (&TEXT.replace("f64[3], %c", "f65[3], %c"), 1, 13, "f65"),
        (&TEXT.replace("sin(%x)", "sine(%x)"), 2, 16, "sine"),
        (
            &TEXT.replace("sin(%x)", "sine(%x)"),
            2,
            16,
            "did you mean `sin`",
        ),
        (&TEXT.replace("sin(%x)", "sin(%7)"), 2, 21, "%7"),
        (&TEXT.replace("sin(%x)", "sin(%y)"), 2, 21, "`y`"),
        (&TEXT.replace("sin(%x)", "sin(%x, %c)"), 2, 16, "arguments"),
        (
            &TEXT.replace("f64[3], %c", "f64[3], %x"),
            1,
            21,
            "two inputs",
        ),
        (&TEXT.replace("sin(%x)", "where(%x, %x, %x)"), 2, 16, "bool"),
        (&TEXT.replace("%3: f64[3]", "%9: f64[3]"), 3, 4, "%3"),
        (&TEXT.replace("%3: f64[3]", "%3: f64[4]"), 3, 16, "f64[3]"),
        (&TEXT.replace("axes=(0,)", "axes=(1,)"), 5, 15, "axis 1"),
        (&TEXT.replace("axes=(0,)", "axes=(x,)"), 5, 18, "axes"),
        (&TEXT.replace("}\n", "} more"), 7, 3, "follows"),
        (&TEXT.replace("\"y\"\n}\n", "\"y"), 6, 15, "does not end"),
    ];
    for (text, line, column, word) in cases {
        let error = Program::parse(text).unwrap_err().to_string();
        let place = format!("line {line}, column {column}: ");
        assert!(
            error.starts_with(&place) && error.contains(word),
            "{place} {word} in {error}"
        );
        // The line itself, and a mark below the column.
        let [.., shown, mark] = error.lines().collect::<Vec<_>>()[..] else {
            panic!("{error}");
        };
        let whole = text.lines().nth(line - 1).unwrap_or("");
        assert_eq!(shown.trim_start(), whole.trim(), "{error}");
        assert_eq!(mark.len(), column + 2, "{error}");
    }
}

/// Of a long line only what is around the mark.
#[test]
fn errors_in_long_lines_are_short() {
    let inputs: Vec<String> = (0..2000).map(|i| format!("%x{i}: f64[3]")).collect();
    let inputs = inputs.join(", ");
    let text = format!("program({inputs}, %y: nothing[3]) {{ return %y }}");
    let error = Program::parse(&text).unwrap_err().to_string();
    assert!(
        error.contains("`nothing` is no dtype") && error.len() < 400,
        "{error}"
    );
}

/// Names that are paths of their own stand for themselves, all others behind a number.
#[test]
fn names_of_inputs() {
    let aval = Aval::scalar(DType::F64);
    let cases = [
        ("x", "%x"),
        ("model.layers[0].w", "%model.layers[0].w"),
        ("p['first bias'][10]", "%p['first bias'][10]"),
        ("größe_2", "%größe_2"),
        ("", "%0"),
        ("2x", "%0 \"2x\""),
        ("a.", "%0 \"a.\""),
        ("a[x]", "%0 \"a[x]\""),
        ("a['it's']", "%0 \"a[\\'it\\'s\\']\""),
        ("a\n", "%0 \"a\\n\""),
        ("\0\u{202e}", "%0 \"\\0\\u{202e}\""),
    ];
    for (name, shown) in cases {
        let builder = Builder::new();
        let x = builder.input(name, &aval);
        let program = builder.finish(vec![x]).unwrap();
        let text = program.to_string();
        assert!(
            text.starts_with(&format!("program({shown}: f64[])")),
            "{text}"
        );
        let again = Program::parse(&text).unwrap();
        assert_eq!(again, program);
        assert_eq!(again.to_string(), text);
    }
    let builder = Builder::new();
    let (x, y) = (builder.input("x", &aval), builder.input("x", &aval));
    let twice = builder.finish(vec![x, y]).unwrap();
    assert!(
        twice
            .to_string()
            .contains("(%0 \"x\": f64[], %1 \"x\": f64[])")
    );
    assert_eq!(Program::parse(&twice.to_string()).unwrap(), twice);
}

/// Tables in another order, and what is in them besides, make no difference once a program is compacted.
#[test]
fn compacted_programs_are_equal() {
    let write = |unused: bool| {
        let builder = Builder::new();
        let x = builder.input("x", &Aval::new(DType::F64, &[3]));
        if unused {
            builder
                .push(ops::SUM, Params::Axes([0].as_slice().into()), &[x])
                .unwrap();
        }
        let flipped = builder
            .push(ops::FLIP, Params::Axes([0].as_slice().into()), &[x])
            .unwrap();
        builder.finish(vec![flipped]).unwrap().pruned()
    };
    let (one, other) = (write(false).compacted(), write(true).compacted());
    assert_eq!(one, other);
    assert_eq!(one.structural_hash(), other.structural_hash());
}

#[test]
fn programs_are_composed() {
    let first = Program::parse(TEXT).unwrap();
    let then = "program(%s: f64[], %k: f64[]) { %2: f64[] = mul(%s, %k) return %2 \"z\" }";
    let then = Program::parse(then).unwrap();
    let both = Program::compose(&first, &then).unwrap();
    assert_eq!(both.input_names().len(), 3);
    assert_eq!(&*both.output_names()[0], "z");
    assert_eq!(both.eqns().len(), first.eqns().len() + 1);
    both.verify().unwrap();
    let error = Program::compose(&first, &first).unwrap_err().to_string();
    assert!(
        error.contains("output 0 (y)") && error.contains("input 0 (x)"),
        "{error}"
    );
    let none = Program::parse("program() { return }").unwrap();
    assert!(Program::compose(&first, &none).is_err());
}

/// Whatever the parser accepts is well formed, and nothing makes it panic.
#[test]
fn damaged_text_never_panics() {
    let mut rng = testing::Rng::new(1);
    for _ in 0..3000 {
        let mut bytes = TEXT.as_bytes().to_vec();
        for _ in 0..=rng.bits() % 3 {
            let at = (rng.bits() % bytes.len().max(1) as u64) as usize;
            match rng.bits() % 3 {
                0 if at < bytes.len() => drop(bytes.remove(at)),
                0 => {}
                1 => bytes.insert(at, b"%()[]{},:=0919 \"\\-x"[(rng.bits() % 19) as usize]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let Ok(text) = std::str::from_utf8(&bytes)
            && let Ok(program) = Program::parse(text)
        {
            program.verify().unwrap();
            assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
        }
    }
}

#[test]
fn verify_rejects_what_does_not_fit() {
    let builder = Builder::new();
    let x = builder.input("x", &Aval::new(DType::F64, &[3]));
    let wrong = builder.push_inferred(ops::SIN, Params::None, &[x], &Aval::new(DType::F64, &[4]));
    let error = builder
        .finish(vec![wrong])
        .unwrap()
        .verify()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("f64[3]") && error.contains("f64[4]"),
        "{error}"
    );

    let builder = Builder::new();
    let x = builder.input("x", &Aval::new(DType::F64, &[3]));
    let late = builder.push_inferred(
        ops::SIN,
        Params::None,
        &[x + 1],
        &Aval::new(DType::F64, &[3]),
    );
    let error = builder
        .finish(vec![late])
        .unwrap()
        .verify()
        .unwrap_err()
        .to_string();
    assert!(error.contains("defined after"), "{error}");

    let builder = Builder::new();
    let x = builder.input("x", &Aval::new(DType::F64, &[3]));
    let error = builder
        .finish(vec![x + 5])
        .unwrap()
        .verify()
        .unwrap_err()
        .to_string();
    assert!(error.contains("output %5"), "{error}");

    let builder = Builder::new();
    let x = builder.input("x", &Aval::new(DType::F64, &[3]));
    let odd = builder.push_inferred(
        ops::SIN,
        Params::None,
        &[x, x],
        &Aval::new(DType::F64, &[3]),
    );
    assert!(builder.finish(vec![odd]).unwrap().verify().is_err());
}

/// An equation that does not fit is refused when it is written; a rule's error waits for the end.
#[test]
fn the_builder_checks() {
    let builder = Builder::new();
    let x = builder.input("x", &Aval::new(DType::F64, &[3]));
    let y = builder.input("y", &Aval::new(DType::F64, &[4]));
    assert!(builder.push(ops::ADD, Params::None, &[x, y]).is_err());
    let _ = builder.value(x) + builder.value(y);
    assert!(
        builder
            .finish(vec![x])
            .unwrap_err()
            .to_string()
            .contains("(3,) and (4,)")
    );
}

#[test]
fn programs_run_and_check_their_arguments() {
    let program = Program::parse(TEXT).unwrap();
    let x = Array::from_slice(&[3], &[0.1, 0.2, 0.3]).unwrap();
    let y = program.call(&[x.clone(), x.clone()]).unwrap();
    let wanted: f64 = [0.1f64, 0.2, 0.3].iter().map(|x| x.sin() * x.cos()).sum();
    assert!((y[0].item().unwrap() - wanted).abs() < 1e-15);
    assert!(
        program
            .call(std::slice::from_ref(&x))
            .unwrap_err()
            .to_string()
            .contains("2 arguments")
    );
    let error = program
        .call(&[x, Array::from(1.0)])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("argument 1 c") && error.contains("f64[3]"),
        "{error}"
    );
}

#[test]
fn pruning_and_extracting() {
    let text = "program(%0: f64[2]) {\n  %1: f64[2] = sin(%0)\n  %2: f64[2] = exp(%0)\n  %3: f64[2] = neg(%1)\n  return %3\n}\n";
    let program = Program::parse(text).unwrap();
    assert_eq!(program.pruned().eqns().len(), 2);
    // With %1 as an input the sine is cut off.
    let cut = program.extract(&[1], &[3]);
    assert_eq!(
        cut.to_string(),
        "program(%0: f64[2]) {\n  %1: f64[2] = neg(%0)\n  return %1\n}\n"
    );
    let x = Value::from_slice(&[2], &[1.0, 2.0]).unwrap();
    let out = testing::run(&cut, &[x]).unwrap();
    assert_eq!(out[0].as_slice::<f64>().unwrap(), [-1.0, -2.0]);
}

#[test]
fn equal_structure_whatever_the_names() {
    let program = Program::parse(TEXT).unwrap();
    let mut renamed = program.clone();
    renamed.name_inputs(["u".to_string(), "v".to_string()]);
    assert!(renamed != program && renamed.same_structure(&program));
    assert_eq!(renamed.structural_hash(), program.structural_hash());
    let other = Program::parse(&TEXT.replace("cos", "tan")).unwrap();
    assert!(!other.same_structure(&program));
}
