//! The textual form: one equation a line, which reads back as an equal program.
//!
//! ```text
//! program(%0 "x": f64[3], %1 "c": f64[3]) {
//!   %2: f64[3] = sin(%0)
//!   %3: f64[3] = cos(%1)
//!   %4: f64[3] = mul(%2, %3)
//!   %5: f64[] = sum[axes=(0,)](%4)
//!   return %5
//! }
//! ```

use std::fmt;

use super::{Builder, Program};
use crate::aval::{Aval, DType, Shape};
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Params, Var};

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("program(")?;
        for (i, name) in self.inputs.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}%{i}")?;
            write_name(f, name)?;
            write!(f, ": {}", self.aval(i as Var))?;
        }
        f.write_str(") {\n")?;
        for (k, eqn) in self.eqns.iter().enumerate() {
            let var = self.result(k);
            write!(
                f,
                "  %{var}: {} = {}{:?}(",
                self.aval(var),
                eqn.prim.name(),
                self.params(eqn)
            )?;
            for (i, a) in self.args(eqn).iter().enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                write!(f, "{comma}%{a}")?;
            }
            f.write_str(")\n")?;
        }
        f.write_str("  return")?;
        for (i, (out, name)) in self.outs.iter().zip(&self.outputs).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma} %{out}")?;
            write_name(f, name)?;
        }
        f.write_str("\n}\n")
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    if name.is_empty() {
        return Ok(());
    }
    write!(f, " \"{}\"", name.escape_default())
}

impl Program {
    /// Reads the textual form. Errors give line and column.
    ///
    /// ```
    /// let text = "program(%0 \"x\": f64[3]) {\n  %1: f64[3] = exp(%0)\n  return %1\n}\n";
    /// let program = cotan::Program::parse(text)?;
    /// assert_eq!(program.to_string(), text);
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Program> {
        let mut p = Parser { text, at: 0 };
        let program = p.program().map_err(|e| match e {
            Error::Program(m) if m.starts_with("line ") => Error::Program(m),
            other => p.error(&other.to_string()),
        })?;
        program.verify()?;
        Ok(program)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, what: &str) -> Error {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        Error::Program(format!("line {line}, column {column}: {what}"))
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
        Ok(Aval { dtype, shape })
    }

    fn params(&mut self) -> Result<Params> {
        self.space();
        let start = self.at;
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
        Params::from_attributes(&attributes).map_err(|e| {
            self.at = start;
            self.error(&e.to_string())
        })
    }

    fn program(&mut self) -> Result<Program> {
        self.expect("program")?;
        self.expect("(")?;
        let builder = Builder::new();
        let mut defined = 0;
        while !self.eat(")") {
            if defined > 0 {
                self.expect(",")?;
            }
            self.definition(defined)?;
            let name = self.name()?;
            builder.input(&name, &self.aval()?);
            defined += 1;
        }
        self.expect("{")?;
        while !self.eat("return") {
            self.definition(defined)?;
            let aval = self.aval()?;
            self.expect("=")?;
            self.space();
            let start = self.at;
            let name = self.word()?;
            let Some(prim) = ops::by_name(name) else {
                self.at = start;
                return Err(self.error(&format!("`{name}` is no primitive")));
            };
            let params = self.params()?;
            self.expect("(")?;
            let mut args = Vec::new();
            while !self.eat(")") {
                if !args.is_empty() {
                    self.expect(",")?;
                }
                args.push(self.var(defined)?);
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
        self.space();
        if !self.rest().is_empty() {
            return Err(self.error("something follows the program"));
        }
        let mut program = builder.finish(outs)?;
        program.set_output_names(names);
        Ok(program)
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
