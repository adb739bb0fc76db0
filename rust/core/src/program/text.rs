//! The textual form: one equation a line, which reads back as an equal program.
//!
//! ```text
//! program(%x: f64[3], %model.layers[0].w: f64[3]) {
//!   %2: f64[3] = sin(%x)
//!   %3: f64[3] = cos(%model.layers[0].w)
//!   %4: f64[3] = mul(%2, %3)
//!   %5: f64[] = sum[axes=(0,)](%4)
//!   return %5
//! }
//! ```
//!
//! A loop has its body behind its arguments; a further output of one names the equation that has it:
//!
//! ```text
//!   %2: f64[] = loop[length=100, carries=1, scanned=0, reverse=false, output=0](%x, %y) program(...) {
//!     ...
//!   }
//!   %3: f64[100] = loop[of=2, output=1](%x, %y)
//! ```
//!
//! Variables are numbered in order. An input is called by its name where that is a path of its own, as
//! here; else by its number, with the name in quotes behind it: `%0 "a name"`. A number that is bound to an
//! input stands behind it: `%x: f64[] = 0.5`. Comments run from `#` to the end of the line.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::literals::parse_number;
use super::text_parts::{bare, nearest, one_line, pointed_at, quoted, write_comment};
use super::{Builder, End, Loop, Program};
use crate::aval::{Aval, DType, Shape, checked_size};
use crate::error::{Error, Result};
use crate::kernels::Value;
use crate::ops;
use crate::prim::{Params, Site, Var};
use crate::util::FastMap;

/// A header longer than this is broken, one input a line.
const WIDTH: usize = 100;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.listing(f, |_| None, |_| None)
    }
}

impl Program {
    /// Writes the textual form, with the number that is bound to an input where there is one, and a comment
    /// for each variable that has one.
    pub fn listing(
        &self,
        f: &mut impl fmt::Write,
        number: impl Fn(Var) -> Option<String>,
        comment: impl Fn(Var) -> Option<String>,
    ) -> fmt::Result {
        let labels = self.labels();
        let label = |v: Var| -> Cow<'_, str> {
            match labels.get(v as usize) {
                Some(Some(name)) => Cow::Borrowed(name),
                _ => Cow::Owned(v.to_string()),
            }
        };
        let inputs: Vec<String> = (0..self.inputs.len() as Var)
            .map(|v| {
                let label = label(v);
                let name = match labels[v as usize] {
                    Some(_) => String::new(),
                    None => quoted(&self.inputs[v as usize]),
                };
                let number = number(v).map_or_else(String::new, |n| format!(" = {n}"));
                format!("%{label}{name}: {}{number}", self.aval(v))
            })
            .collect();
        let comments: Vec<Option<String>> = (0..inputs.len() as Var)
            .map(|v| comment(v).map(one_line))
            .collect();
        let one = inputs.iter().map(|i| i.chars().count() + 2).sum::<usize>();
        if one > WIDTH || comments.iter().any(Option::is_some) {
            f.write_str("program(\n")?;
            for (input, comment) in inputs.iter().zip(comments) {
                write!(f, "  {input},")?;
                write_comment(f, comment)?;
            }
            f.write_str(") {\n")?;
        } else {
            writeln!(f, "program({}) {{", inputs.join(", "))?;
        }
        let mut loops: Vec<(Var, &Loop)> = Vec::new();
        for (k, eqn) in self.eqns.iter().enumerate() {
            let var = self.result(k);
            write!(f, "  %{var}: {} = {}", self.aval(var), eqn.prim.name())?;
            let mut body = None;
            match self.params(eqn) {
                Params::Loop { of, output } => {
                    if let Some((first, _)) = loops.iter().find(|(_, known)| **known == **of) {
                        write!(f, "[of={first}, output={output}](")?;
                    } else {
                        loops.push((var, of));
                        body = Some(of.body());
                        write!(f, "{:?}(", self.params(eqn))?;
                    }
                }
                params => write!(f, "{params:?}(")?,
            }
            for (i, &a) in self.args(eqn).iter().enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                write!(f, "{comma}%{}", label(a))?;
            }
            f.write_str(")")?;
            if let Some(body) = body {
                let text = body.to_string();
                write!(f, " {}", text.trim_end().replace('\n', "\n  "))?;
            }
            write_comment(f, comment(var).map(one_line))?;
        }
        let outs = self.outs.iter().zip(&self.outputs);
        let outs: Vec<String> = outs
            .map(|(&out, name)| format!("%{}{}", label(out), quoted(name)))
            .collect();
        let one = outs.iter().map(|o| o.chars().count() + 2).sum::<usize>();
        let between = if one > WIDTH { ",\n    " } else { ", " };
        let space = if outs.is_empty() { "" } else { " " };
        writeln!(f, "  return{space}{}", outs.join(between))?;
        f.write_str("}\n")
    }

    /// For each input the name that it is called by in text, if it is one of its own.
    pub fn labels(&self) -> Vec<Option<&str>> {
        let mut seen: FastMap<&str, usize> = FastMap::default();
        for name in &self.inputs {
            *seen.entry(name).or_default() += 1;
        }
        let names = self.inputs.iter().map(AsRef::as_ref);
        names
            .map(|name: &str| {
                (!name.is_empty() && seen[name] == 1 && bare(name) == name.len()).then_some(name)
            })
            .collect()
    }
}

impl Program {
    /// Reads the textual form. Errors give line and column.
    ///
    /// ```
    /// let text = "program(%x: f64[3]) {\n  %1: f64[3] = exp(%x)\n  return %1\n}\n";
    /// let program = cotan::Program::parse(text)?;
    /// assert_eq!(program.to_string(), text);
    /// # Ok::<(), cotan::Error>(())
    /// ```
    ///
    /// Fails for a text with numbers bound to inputs: see [`Program::parse_bound`].
    pub fn parse(text: &str) -> Result<Program> {
        let (program, numbers) = Program::parse_bound(text)?;
        match numbers.first() {
            None => Ok(program),
            Some((v, _)) => Err(Error::Program(format!(
                "input {v} has a number bound to it, which is not a part of the program itself"
            ))),
        }
    }

    /// The same, with the numbers that are bound to inputs.
    ///
    /// ```
    /// let text = "program(%x: f64[] = 0.5) {\n  %1: f64[] = exp(%x)\n  return %1\n}\n";
    /// let (_, numbers) = cotan::Program::parse_bound(text)?;
    /// assert_eq!(numbers[0].1.item().map(|z| z.re), Some(0.5));
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn parse_bound(text: &str) -> Result<(Program, Vec<(Var, Value)>)> {
        let names = FastMap::default();
        let mut p = Parser {
            text,
            at: 0,
            names,
            sites: Vec::new(),
            numbers: Vec::new(),
            depth: 0,
        };
        let program = p.whole().map_err(|e| match e {
            Error::Program(m) if m.starts_with("line ") => Error::Program(m),
            other => p.error(&other.to_string()),
        })?;
        program.verify()?;
        Ok((program, p.numbers))
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Inputs that are called by name.
    names: FastMap<&'a str, Var>,
    /// Equations with a comment that says where they come from.
    sites: Vec<(usize, Site)>,
    /// Numbers bound to inputs.
    numbers: Vec<(Var, Value)>,
    /// In how many bodies of loops it is.
    depth: usize,
}

/// Loops in loops are read up to this depth.
const DEEPEST: usize = 64;

impl<'a> Parser<'a> {
    fn error(&self, what: &str) -> Error {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        let whole = self.text.lines().nth(line - 1).unwrap_or("");
        Error::Program(format!(
            "line {line}, column {column}: {what}\n{}",
            pointed_at(whole, column - 1)
        ))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            // A comment runs to the end of its line.
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.error(&format!("expected `{token}`")))
        }
    }

    fn word(&mut self) -> Result<&'a str> {
        self.space();
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("expected a name"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn number(&mut self) -> Result<usize> {
        self.space();
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = rest[..end]
            .parse()
            .map_err(|_| self.error("expected a number"))?;
        self.at += end;
        Ok(number)
    }

    fn var(&mut self, defined: usize) -> Result<Var> {
        self.expect("%")?;
        let start = self.at;
        let end = bare(self.rest());
        if end > 0 {
            let name = &self.rest()[..end];
            let Some(&var) = self.names.get(name) else {
                let nearest = nearest(name, self.names.keys().copied());
                return Err(self.error(&format!("no input is called `{name}`{nearest}")));
            };
            self.at += end;
            return Ok(var);
        }
        let var = self.number()?;
        if var >= defined {
            self.at = start;
            return Err(self.error(&format!("%{var} is not defined here")));
        }
        Ok(var as Var)
    }

    fn name(&mut self) -> Result<String> {
        if !self.eat("\"") {
            return Ok(String::new());
        }
        let mut name = String::new();
        loop {
            let mut chars = self.rest().chars();
            let Some(c) = chars.next() else {
                return Err(self.error("the name does not end"));
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(name),
                '\\' => {
                    let Some(c) = chars.next() else {
                        return Err(self.error("the name does not end"));
                    };
                    self.at += c.len_utf8();
                    match c {
                        'n' => name.push('\n'),
                        '0' => name.push('\0'),
                        't' => name.push('\t'),
                        'r' => name.push('\r'),
                        'u' => {
                            let end = self
                                .rest()
                                .find('}')
                                .ok_or_else(|| self.error("expected `}`"))?;
                            let code = self.rest()[..end].trim_start_matches('{');
                            let code = u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
                            name.push(code.ok_or_else(|| self.error("no such character"))?);
                            self.at += end + 1;
                        }
                        c => name.push(c),
                    }
                }
                c => name.push(c),
            }
        }
    }

    fn aval(&mut self) -> Result<Aval> {
        self.expect(":")?;
        self.space();
        let start = self.at;
        let name = self.word()?;
        let Some(dtype) = DType::from_name(name) else {
            self.at = start;
            return Err(self.error(&format!("`{name}` is no dtype")));
        };
        self.expect("[")?;
        let mut shape = Shape::new();
        while !self.eat("]") {
            if !shape.is_empty() {
                self.expect(",")?;
            }
            shape.push(self.number()?);
        }
        checked_size("program", &shape).map_err(|e| {
            self.at = start;
            self.error(&e.to_string())
        })?;
        Ok(Aval { dtype, shape })
    }

    /// The number that is bound to an input.
    fn bound(&mut self, aval: &Aval) -> Result<Value> {
        self.space();
        let rest = self.rest();
        let end = match rest.strip_prefix('(') {
            Some(inner) => inner.find(')').map(|n| n + 2),
            None => rest.find([',', ')', '#', '\n']),
        };
        let text = rest[..end.unwrap_or(rest.len())].trim_end();
        let value = parse_number(aval.dtype, text).filter(|_| aval.shape.is_empty());
        let value = value.ok_or_else(|| self.error(&format!("no number of type {aval}")))?;
        self.at += text.len();
        Ok(value)
    }

    /// The names and texts of parameters.
    fn attributes(&mut self) -> Result<Vec<(String, String)>> {
        self.space();
        let mut attributes = Vec::new();
        if self.eat("[") {
            while !self.eat("]") {
                if !attributes.is_empty() {
                    self.expect(",")?;
                }
                let key = self.word()?.to_string();
                self.expect("=")?;
                self.space();
                let rest = self.rest();
                let end = if rest.starts_with('(') {
                    rest.find(')').map(|e| e + 1)
                } else {
                    rest.find([',', ']'])
                };
                let end = end.ok_or_else(|| self.error("the parameters do not end"))?;
                attributes.push((key, rest[..end].trim().to_string()));
                self.at += end;
            }
        }
        Ok(attributes)
    }

    /// The parameters of a loop, whose body stands here or with one of the loops before.
    fn loop_params(
        &mut self,
        attributes: &[(String, String)],
        loops: &[(usize, Arc<Loop>)],
    ) -> Result<Params> {
        let text = |key: &str| {
            attributes
                .iter()
                .find(|(k, _)| k == key)
                .map(|(_, v)| v.as_str())
        };
        let number = |key: &str| text(key).and_then(|v| v.parse::<usize>().ok());
        let output = number("output").ok_or_else(|| self.error("a loop needs output="))?;
        if let Some(first) = number("of") {
            let known = loops.iter().find(|(var, _)| *var == first);
            let (_, of) = known.ok_or_else(|| self.error(&format!("%{first} is no loop here")))?;
            let of = Arc::clone(of);
            return Ok(Params::Loop { of, output });
        }
        let (Some(length), Some(carries), Some(scanned)) =
            (number("length"), number("carries"), number("scanned"))
        else {
            return Err(self.error("a loop needs length=, carries= and scanned="));
        };
        let reverse = text("reverse") == Some("true");
        if self.depth == DEEPEST {
            return Err(self.error("too many loops in loops"));
        }
        let names = std::mem::take(&mut self.names);
        let sites = std::mem::take(&mut self.sites);
        self.depth += 1;
        let body = self.program()?;
        self.depth -= 1;
        (self.names, self.sites) = (names, sites);
        let end = match text("end") {
            None => End::Length,
            Some("count") => End::Count,
            Some("false") => End::False,
            Some(_) => return Err(self.error("a loop has end=count, end=false or none")),
        };
        let of = Loop::new(body, length, carries, scanned, reverse).and_then(|of| of.ending(end));
        let of = of.map(|of| of.keeping(number("budget")));
        let of = Arc::new(of.map_err(|e| self.error(&e.to_string()))?);
        Ok(Params::Loop { of, output })
    }

    fn whole(&mut self) -> Result<Program> {
        let program = self.program()?;
        self.space();
        if !self.rest().is_empty() {
            return Err(self.error("something follows the program"));
        }
        Ok(program)
    }

    fn program(&mut self) -> Result<Program> {
        self.expect("program")?;
        self.expect("(")?;
        let builder = Builder::new();
        let mut defined = 0;
        while !self.eat(")") {
            if defined > 0 {
                self.expect(",")?;
                if self.eat(")") {
                    break;
                }
            }
            self.space();
            let end = bare(self.rest().strip_prefix('%').unwrap_or(""));
            let name = if end > 0 {
                let name = &self.rest()[1..=end];
                if self.names.insert(name, defined as Var).is_some() {
                    return Err(self.error(&format!("two inputs are called `{name}`")));
                }
                self.at += 1 + end;
                Cow::Borrowed(name)
            } else {
                self.definition(defined)?;
                Cow::Owned(self.name()?)
            };
            let aval = self.aval()?;
            if self.depth == 0 && self.eat("=") {
                let value = self.bound(&aval)?;
                self.numbers.push((defined as Var, value));
            }
            builder.input(&name, &aval);
            defined += 1;
        }
        self.expect("{")?;
        let num_inputs = defined;
        let mut loops: Vec<(usize, Arc<Loop>)> = Vec::new();
        while !self.eat("return") {
            self.definition(defined)?;
            let aval = self.aval()?;
            self.expect("=")?;
            self.space();
            let start = self.at;
            let name = self.word()?;
            let Some(prim) = ops::by_name(name) else {
                self.at = start;
                let nearest = nearest(name, ops::table().iter().map(|p| p.name()));
                return Err(self.error(&format!("`{name}` is no primitive{nearest}")));
            };
            self.space();
            let attributes_at = self.at;
            let attributes = self.attributes()?;
            self.expect("(")?;
            let mut args = Vec::new();
            while !self.eat(")") {
                if !args.is_empty() {
                    self.expect(",")?;
                }
                args.push(self.var(defined)?);
            }
            let params = if prim == ops::LOOP {
                self.loop_params(&attributes, &loops)?
            } else {
                Params::from_attributes(&attributes).map_err(|e| {
                    self.at = attributes_at;
                    self.error(&e.to_string())
                })?
            };
            if let Params::Loop { of, .. } = &params {
                loops.push((defined, Arc::clone(of)));
            }
            let var = builder.push(prim, params, &args).map_err(|e| {
                self.at = start;
                self.error(&e.to_string())
            })?;
            let found = builder.with(|p| p.aval(var).clone());
            if found != aval {
                self.at = start;
                return Err(self.error(&format!("{name} gives {found}, not {aval}")));
            }
            if let Some(site) = self.place_behind() {
                self.sites.push((defined - num_inputs, site));
            }
            defined += 1;
        }
        let (mut outs, mut names) = (Vec::new(), Vec::new());
        while !self.eat("}") {
            if !outs.is_empty() {
                self.expect(",")?;
            }
            outs.push(self.var(defined)?);
            names.push(self.name()?.into());
        }
        let mut program = builder.finish(outs)?;
        program.set_output_names(names);
        for &(k, site) in &self.sites {
            program.sites.set(k, site);
        }
        Ok(program)
    }

    /// The place that a comment in the rest of the line names, as `Program::listing` writes it.
    fn place_behind(&self) -> Option<Site> {
        let comment = self.rest().trim_start_matches([' ', '\t']);
        let comment = comment.strip_prefix('#')?.lines().next()?.trim();
        let (file, number) = comment.rsplit_once(':')?;
        let plain = !file.is_empty() && !file.contains(char::is_control);
        plain.then(|| Some(Site::new(file, number.parse().ok()?, "")))?
    }

    /// `%n` where variable `n` is the next to be defined.
    fn definition(&mut self, next: usize) -> Result<()> {
        self.expect("%")?;
        let start = self.at;
        if self.number()? != next {
            self.at = start;
            return Err(self.error(&format!("variables are numbered in order; this is %{next}")));
        }
        Ok(())
    }
}
