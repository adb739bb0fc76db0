//! A program as bytes. Not its text: that is for readers, and may change with every version.

use std::sync::Arc;

use num_complex::Complex;

use super::damaged;
use super::fields::{Fields, put_count, put_text};
use crate::aval::{Aval, DType, Shape};
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Params, Prim, Var};
use crate::program::{Builder, End, Loop, Program};
use crate::util::FastMap;

/// The number that stands for a dtype. They never change.
pub(super) fn dtype_code(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 1,
        DType::U8 => 2,
        DType::I32 => 3,
        DType::I64 => 4,
        DType::F16 => 5,
        DType::Bf16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::C64 => 9,
        DType::C128 => 10,
        DType::I8 => 11,
        DType::I16 => 12,
        DType::U16 => 13,
        DType::U32 => 14,
        DType::U64 => 15,
    }
}

pub(super) fn dtype_from(code: u8) -> Result<DType> {
    (DType::ALL.into_iter())
        .find(|&d| dtype_code(d) == code)
        .ok_or_else(|| {
            damaged(format_args!(
                "there is no dtype of number {code} in this version"
            ))
        })
}

/// Parameters as texts by name.
const ATTRIBUTES: u8 = 0;
/// A number by its bits.
const LITERAL: u8 = 1;
/// An output of a loop, with its body.
const LOOP: u8 = 2;
/// An output of a loop whose body stands with earlier parameters, by their number.
const LOOP_AGAIN: u8 = 3;
/// Loops in loops are read up to this depth.
const DEEPEST: usize = 64;

/// The bytes of a program. Fails when it calls back, or has functions with derivative rules of their own.
pub fn encode(program: &Program) -> Result<Vec<u8>> {
    if let Some(name) = program.host_calls().first() {
        return Err(Error::Saved(format!(
            "{name} is code of this process, called back by the program, so that cannot be saved"
        )));
    }
    let mut out = Vec::new();
    let mut prims: Vec<Prim> = Vec::new();
    let mut number: FastMap<Prim, u32> = FastMap::default();
    for eqn in program.eqns() {
        number.entry(eqn.prim).or_insert_with(|| {
            prims.push(eqn.prim);
            (prims.len() - 1) as u32
        });
    }
    put_count(&mut out, prims.len());
    for prim in &prims {
        put_text(&mut out, prim.name());
    }
    put_count(&mut out, program.avals.len());
    for aval in &program.avals {
        out.push(dtype_code(aval.dtype));
        out.push(aval.shape.len() as u8);
        for &n in &aval.shape {
            out.extend_from_slice(&(n as u64).to_le_bytes());
        }
    }
    put_count(&mut out, program.params.len());
    let mut loops: Vec<(usize, &Loop)> = Vec::new();
    for (i, params) in program.params.iter().enumerate() {
        if let Params::Loop { of, output } = params {
            if let Some((first, _)) = loops.iter().find(|(_, known)| **known == **of) {
                out.push(LOOP_AGAIN);
                out.extend_from_slice(&(*first as u64).to_le_bytes());
            } else {
                out.push(LOOP);
                encode_loop(&mut out, of)?;
                loops.push((i, of));
            }
            out.extend_from_slice(&(*output as u64).to_le_bytes());
            continue;
        }
        encode_params(&mut out, params)?;
    }
    put_count(&mut out, program.num_inputs());
    for (name, aval) in program.inputs.iter().zip(&program.var_avals) {
        out.extend_from_slice(&aval.to_le_bytes());
        put_text(&mut out, name);
    }
    put_count(&mut out, program.eqns.len());
    for (k, eqn) in program.eqns.iter().enumerate() {
        let args = program.args(eqn);
        let aval = program.var_avals[program.result(k) as usize];
        for word in [number[&eqn.prim], eqn.params, aval, args.len() as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for arg in args {
            out.extend_from_slice(&arg.to_le_bytes());
        }
    }
    put_count(&mut out, program.outs.len());
    for (var, name) in program.outs.iter().zip(&program.outputs) {
        out.extend_from_slice(&var.to_le_bytes());
        put_text(&mut out, name);
    }
    Ok(out)
}

fn encode_loop(out: &mut Vec<u8>, of: &Loop) -> Result<()> {
    let body = encode(of.body())?;
    for n in [of.length, of.carries, of.scanned, body.len()] {
        out.extend_from_slice(&(n as u64).to_le_bytes());
    }
    let end = match of.end {
        End::Length => 0,
        End::Count => 1,
        End::False => 2,
    };
    out.push(u8::from(of.reverse) | end << 1 | u8::from(of.budget.is_some()) << 3);
    if let Some(budget) = of.budget {
        out.extend_from_slice(&(budget as u64).to_le_bytes());
    }
    out.extend_from_slice(&body);
    Ok(())
}

fn decode_loop(fields: &mut Fields<'_>, writer: &str, depth: usize) -> Result<Arc<Loop>> {
    if depth == DEEPEST {
        return Err(damaged("there are too many loops in loops"));
    }
    let (length, carries, scanned) = (fields.size()?, fields.size()?, fields.size()?);
    let bytes = fields.size()?;
    let how = fields.u8()?;
    let budget = (how >> 3 != 0).then(|| fields.size()).transpose()?;
    let end = match how >> 1 & 3 {
        0 => End::Length,
        1 => End::Count,
        2 => End::False,
        _ => return Err(damaged("nobody knows when a loop ends")),
    };
    let body = decode_at(fields.bytes(bytes)?, writer, depth + 1)?;
    let of = Loop::new(body, length, carries, scanned, how & 1 != 0).and_then(|of| of.ending(end));
    let of = of.map(|of| of.keeping(budget));
    Ok(Arc::new(of.map_err(damaged)?))
}

fn encode_params(out: &mut Vec<u8>, params: &Params) -> Result<()> {
    match params {
        Params::Custom { rule, .. } => {
            return Err(Error::Saved(format!(
                "{} has a derivative rule of its own, which a saved program does not hold",
                rule.name()
            )));
        }
        Params::Literal { dtype, value } => {
            out.extend_from_slice(&[LITERAL, dtype_code(*dtype)]);
            out.extend_from_slice(&value.re.to_bits().to_le_bytes());
            out.extend_from_slice(&value.im.to_bits().to_le_bytes());
        }
        params => {
            let attributes = params.attributes();
            out.extend_from_slice(&[ATTRIBUTES, attributes.len() as u8]);
            for (key, text) in attributes {
                put_text(out, key);
                put_text(out, &text);
            }
        }
    }
    Ok(())
}

fn decode_params(
    fields: &mut Fields<'_>,
    known: &[Params],
    writer: &str,
    depth: usize,
) -> Result<Params> {
    match fields.u8()? {
        LOOP => {
            let of = decode_loop(fields, writer, depth)?;
            let output = fields.size()?;
            Ok(Params::Loop { of, output })
        }
        LOOP_AGAIN => {
            let first = fields.size()?;
            let output = fields.size()?;
            let Some(Params::Loop { of, .. }) = known.get(first) else {
                return Err(damaged("an equation has no loop"));
            };
            let of = Arc::clone(of);
            Ok(Params::Loop { of, output })
        }
        LITERAL => {
            let dtype = dtype_from(fields.u8()?)?;
            let (re, im) = (fields.u64()?, fields.u64()?);
            let value = Complex::new(f64::from_bits(re), f64::from_bits(im));
            Ok(Params::Literal { dtype, value })
        }
        ATTRIBUTES => {
            let mut attributes = Vec::new();
            for _ in 0..fields.u8()? {
                let (key, text) = (fields.text()?, fields.text()?);
                attributes.push((key.to_string(), text.to_string()));
            }
            Params::from_attributes(&attributes).map_err(damaged)
        }
        tag => Err(damaged(format_args!(
            "there are no parameters of kind {tag} in this version"
        ))),
    }
}

/// Reads a program and verifies it. `writer` is the version that wrote it.
pub fn decode(bytes: &[u8], writer: &str) -> Result<Program> {
    decode_at(bytes, writer, 0)
}

/// The same for the body of a loop, in so many others.
fn decode_at(bytes: &[u8], writer: &str, depth: usize) -> Result<Program> {
    let mut fields = Fields::new("the program", bytes);
    let mut prims = Vec::new();
    for _ in 0..fields.count(4)? {
        let name = fields.text()?;
        prims.push(ops::by_name(name).ok_or_else(|| {
            Error::Saved(format!(
                "the program uses the primitive {name:?}, which this version of cotan ({}) does not have; it \
                 was saved by version {writer}: load it with that version or a later one",
                env!("CARGO_PKG_VERSION")
            ))
        })?);
    }
    let mut avals: Vec<Aval> = Vec::new();
    for _ in 0..fields.count(2)? {
        let dtype = dtype_from(fields.u8()?)?;
        let mut shape = Shape::new();
        for _ in 0..fields.u8()? {
            shape.push(fields.size()?);
        }
        crate::aval::checked_size("the program", &shape).map_err(damaged)?;
        avals.push(Aval { dtype, shape });
    }
    let aval = |i: u32| {
        let found = avals.get(i as usize);
        found.ok_or_else(|| damaged("a variable has no dtype and shape"))
    };
    let mut params = Vec::new();
    for _ in 0..fields.count(2)? {
        let next = decode_params(&mut fields, &params, writer, depth)?;
        params.push(next);
    }
    let builder = Builder::new();
    let mut defined = 0u32;
    for _ in 0..fields.count(8)? {
        let aval = aval(fields.u32()?)?;
        builder.input(fields.text()?, aval);
        defined += 1;
    }
    let known = |var: Var, defined: u32| {
        if var < defined {
            return Ok(var);
        }
        Err(damaged(format_args!("%{var} is used before it is defined")))
    };
    let mut args: Vec<Var> = Vec::new();
    for _ in 0..fields.count(16)? {
        let prim = *(prims.get(fields.u32()? as usize))
            .ok_or_else(|| damaged("an equation has no primitive"))?;
        let params = (params.get(fields.u32()? as usize))
            .ok_or_else(|| damaged("an equation has no parameters"))?;
        let aval = aval(fields.u32()?)?;
        args.clear();
        for _ in 0..fields.count(4)? {
            args.push(known(fields.u32()?, defined)?);
        }
        let var = builder.push(prim, params.clone(), &args).map_err(damaged)?;
        let found = builder.with(|p| p.aval(var).clone());
        if found != *aval {
            return Err(damaged(format_args!(
                "%{var} = {} is {found}, not {aval}",
                prim.name()
            )));
        }
        defined += 1;
    }
    let (mut outs, mut names) = (Vec::new(), Vec::new());
    for _ in 0..fields.count(8)? {
        outs.push(known(fields.u32()?, defined)?);
        names.push(fields.text()?.into());
    }
    fields.end()?;
    let mut program = builder.finish(outs)?;
    program.set_output_names(names);
    program.verify().map_err(damaged)?;
    Ok(program)
}
