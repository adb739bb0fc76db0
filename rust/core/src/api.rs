//! Differentiating functions of arrays: what a Rust user calls.
//!
//! Each function records its argument `f` once, on leaves of its own, so calls may be nested at will.

use std::io::{Read, Write};
use std::path::Path;

use crate::array::Array;
use crate::autodiff;
use crate::aval::DType;
use crate::error::{Error, Result};
use crate::io::{Fields, Kind, Saved};
use crate::program::Program;
use crate::tape::{KeepHistory, Recording};

/// The section that says which arguments of a function are leaves.
const ARGS: [u8; 4] = *b"args";

/// An argument of a differentiated function.
#[derive(Debug, Clone)]
pub struct Arg {
    array: Array,
    active: bool,
}

/// An argument that is held constant: it costs no equation of the pullback and has no gradient.
///
/// ```
/// use cotan::{Arg, Array, constant, gradient};
///
/// let (x, c) = (Array::from(3.0), Array::from(2.0));
/// let g = gradient(|v| v[0].mul(&v[1]), &[Arg::from(&x), constant(&c)])?;
/// assert_eq!(g[0].as_ref().unwrap().item()?, 2.0);
/// assert!(g[1].is_none());
/// # Ok::<(), cotan::Error>(())
/// ```
pub fn constant(x: &Array) -> Arg {
    Arg {
        array: x.clone(),
        active: false,
    }
}

impl From<&Array> for Arg {
    /// To be differentiated with respect to.
    fn from(x: &Array) -> Arg {
        Arg {
            array: x.clone(),
            active: true,
        }
    }
}

impl From<Array> for Arg {
    /// To be differentiated with respect to.
    fn from(array: Array) -> Arg {
        Arg {
            array,
            active: true,
        }
    }
}

/// A recording with the arguments that `f` gets, and the leaves among them.
struct Setup {
    recording: Recording,
    args: Vec<Array>,
    leaves: Vec<Array>,
    /// For each argument its leaf.
    slots: Vec<Option<usize>>,
}

impl Setup {
    fn new(what: &str, args: &[Arg]) -> Result<Setup> {
        let recording = Recording::new();
        let mut setup = Setup {
            recording,
            args: Vec::new(),
            leaves: Vec::new(),
            slots: Vec::new(),
        };
        for (i, arg) in args.iter().enumerate() {
            if !arg.active {
                setup.args.push(arg.array.clone());
                setup.slots.push(None);
                continue;
            }
            if !arg.array.dtype().is_inexact() {
                return Err(Error::NotDifferentiable(format!(
                    "{what}: argument {i} is {} and has no gradient; cast() it to a float, or hold it \
                     constant with constant()",
                    arg.array.dtype().numpy_name()
                )));
            }
            let leaf = setup.recording.leaf(&arg.array);
            setup.slots.push(Some(setup.leaves.len()));
            setup.leaves.push(leaf.clone());
            setup.args.push(leaf);
        }
        Ok(setup)
    }

    /// One entry for each argument.
    fn spread(&self, gradients: &[Option<Array>]) -> Vec<Option<Array>> {
        spread(&self.slots, gradients)
    }
}

fn spread(slots: &[Option<usize>], gradients: &[Option<Array>]) -> Vec<Option<Array>> {
    slots
        .iter()
        .map(|slot| slot.and_then(|i| gradients[i].clone()))
        .collect()
}

fn scalar(what: &str, y: &Array) -> Result<()> {
    if y.aval().size() == 1 && y.dtype().is_inexact() && !y.dtype().is_complex() {
        return Ok(());
    }
    Err(Error::Shape(format!(
        "{what}: the function gave {}, but a gradient needs one real number; reduce it (sum(..), mean(..)), \
         or call pullback",
        y.aval()
    )))
}

/// The gradient of a scalar function: one entry for each argument, `None` for constants and for
/// arguments without influence.
///
/// ```
/// use cotan::{Arg, Array, gradient};
/// use ndarray::array;
///
/// let x = Array::from_ndarray(&array![1.0, 2.0])?;
/// let g = gradient(|x| x[0].square()?.sum(..), &[Arg::from(&x)])?;
/// assert_eq!(g[0].as_ref().unwrap().to_ndarray::<f64>()?, array![2.0, 4.0].into_dyn());
/// # Ok::<(), cotan::Error>(())
/// ```
///
/// Gradients nest:
///
/// ```
/// # use cotan::{Arg, Array, gradient};
/// let cube = |x: &[Array]| x[0].mul(&x[0])?.mul(&x[0]);
/// let slope = |x: &[Array]| Ok(gradient(cube, &[Arg::from(&x[0])])?[0].clone().unwrap());
/// let curvature = gradient(slope, &[Arg::from(Array::from(2.0))])?;
/// assert_eq!(curvature[0].as_ref().unwrap().item()?, 12.0);
/// # Ok::<(), cotan::Error>(())
/// ```
pub fn gradient<F>(f: F, args: &[Arg]) -> Result<Vec<Option<Array>>>
where
    F: FnOnce(&[Array]) -> Result<Array>,
{
    let setup = Setup::new("gradient", args)?;
    let y = f(&setup.args)?;
    scalar("gradient", &y)?;
    let gradients = autodiff::gradient(&setup.recording, &y, &setup.leaves, &mut || false)?;
    Ok(setup.spread(&gradients))
}

/// The value of a scalar function and its gradient, computed in one run.
///
/// ```
/// use cotan::{Arg, Array, value_and_gradient};
///
/// let (y, g) = value_and_gradient(|x| x[0].exp(), &[Arg::from(Array::from(0.0))])?;
/// assert_eq!((y.item()?, g[0].as_ref().unwrap().item()?), (1.0, 1.0));
/// # Ok::<(), cotan::Error>(())
/// ```
pub fn value_and_gradient<F>(f: F, args: &[Arg]) -> Result<(Array, Vec<Option<Array>>)>
where
    F: FnOnce(&[Array]) -> Result<Array>,
{
    let setup = Setup::new("value_and_gradient", args)?;
    let y = f(&setup.args)?;
    scalar("value_and_gradient", &y)?;
    let (y, gradients) =
        autodiff::value_and_gradient(&setup.recording, &y, &setup.leaves, &mut || false)?;
    Ok((y, setup.spread(&gradients)))
}

/// The linear map from the cotangent of a function's result to those of its arguments.
#[derive(Debug, Clone)]
pub struct Pullback {
    inner: autodiff::Pullback,
    slots: Vec<Option<usize>>,
}

/// The value of a function and its pullback.
///
/// What the pullback gives are thunks: an argument's cotangent is computed when it is read, and then
/// without what only the others need.
///
/// ```
/// use cotan::{Arg, Array, constant, pullback};
/// use ndarray::array;
///
/// let x = Array::from_ndarray(&array![0.0, 1.0])?;
/// let c = Array::from_ndarray(&array![2.0, 3.0])?;
/// let (y, back) = pullback(|v| v[0].sin()?.mul(&v[1]), &[Arg::from(&x), constant(&c)])?;
/// let cts = back.apply(&Array::full(y.dtype(), y.shape(), 1.0)?)?;
/// let ct = cts[0].as_ref().unwrap();
/// assert!(!ct.is_forced());
/// assert_eq!(ct.to_vec::<f64>()?, [2.0, 3.0 * 1.0f64.cos()]);
/// # Ok::<(), cotan::Error>(())
/// ```
pub fn pullback<F>(f: F, args: &[Arg]) -> Result<(Array, Pullback)>
where
    F: FnOnce(&[Array]) -> Result<Array>,
{
    let setup = Setup::new("pullback", args)?;
    let y = f(&setup.args)?;
    let (mut outs, inner) =
        autodiff::Pullback::new(&setup.recording, &[&y], &setup.leaves, &mut || false)?;
    Ok((
        outs.remove(0),
        Pullback {
            inner,
            slots: setup.slots,
        },
    ))
}

impl Pullback {
    /// The cotangents of the arguments, given that of the result: lazy, one entry for each argument,
    /// `None` for constants and arguments without influence. May be called again.
    pub fn apply(&self, ct: &Array) -> Result<Vec<Option<Array>>> {
        let gradients = self.inner.apply(&[Some(ct.clone())])?;
        Ok(spread(&self.slots, &gradients))
    }

    /// The pullback for some arguments only; what only the others need is no longer kept.
    #[must_use]
    pub fn wrt(&self, args: &[bool]) -> Pullback {
        let leaves = self
            .slots
            .iter()
            .zip(args)
            .filter(|(slot, _)| slot.is_some());
        let wanted: Vec<bool> = leaves.map(|(_, &wanted)| wanted).collect();
        Pullback {
            inner: self.inner.wrt(&wanted),
            slots: self.slots.clone(),
        }
    }

    /// Saves it to a file: the program and the values that it keeps, with checksums. The file appears whole
    /// or not at all; reading it runs nothing that is in it.
    ///
    /// Fails for a pullback that calls back (hooks and opaque rules of another language).
    ///
    /// ```
    /// use cotan::{Arg, Array, Pullback, pullback};
    ///
    /// let (y, back) = pullback(|x| x[0].exp(), &[Arg::from(Array::from(1.0))])?;
    /// let path = std::env::temp_dir().join(format!("cotan-doc-{}.cotan", std::process::id()));
    /// back.save(&path)?;
    /// let again = Pullback::load(&path)?;
    /// let ct = again.apply(&Array::from(2.0))?.swap_remove(0).unwrap();
    /// assert_eq!(ct.item()?, 2.0 * y.item()?);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.to_saved()?.save(path.as_ref())
    }

    /// Reads a pullback from a file that [`Pullback::save`] wrote, or the Python package.
    pub fn load(path: impl AsRef<Path>) -> Result<Pullback> {
        Pullback::from_saved(&Saved::load(path.as_ref())?)
    }

    /// Writes what [`Pullback::save`] saves.
    ///
    /// ```
    /// # use cotan::{Arg, Array, Pullback, pullback};
    /// let (_, back) = pullback(|x| x[0].square(), &[Arg::from(Array::from(3.0))])?;
    /// let mut bytes = Vec::new();
    /// back.write(&mut bytes)?;
    /// let ct = Pullback::read(&mut &bytes[..])?.apply(&Array::from(1.0))?.swap_remove(0);
    /// assert_eq!(ct.unwrap().item()?, 6.0);
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn write(&self, to: &mut dyn Write) -> Result<()> {
        self.to_saved()?.write(to)
    }

    /// Reads what [`Pullback::write`] wrote.
    pub fn read(from: &mut dyn Read) -> Result<Pullback> {
        Pullback::from_saved(&Saved::read(from)?)
    }

    fn to_saved(&self) -> Result<Saved> {
        let mut saved = self.inner.to_saved(&mut || false)?;
        let slots = self.slots.iter();
        let slots = slots.flat_map(|s| s.map_or(u32::MAX, |s| s as u32).to_le_bytes());
        saved.sections.push((ARGS, slots.collect()));
        Ok(saved)
    }

    fn from_saved(saved: &Saved) -> Result<Pullback> {
        let inner = autodiff::Pullback::from_saved(saved)?;
        if inner.cotangent_avals().count() != 1 {
            return Err(Error::Saved(format!(
                "the function of the pullback has {} results; read it as autodiff::Pullback",
                inner.cotangent_avals().count()
            )));
        }
        let leaves = inner.gradient_avals().count();
        let Some(section) = saved.section(&ARGS) else {
            let slots = (0..leaves).map(Some).collect();
            return Ok(Pullback { inner, slots });
        };
        let mut slots = Vec::new();
        let mut fields = Fields::new("the arguments", section);
        for _ in 0..section.len() / 4 {
            let slot = fields.u32()?;
            slots.push((slot != u32::MAX).then_some(slot as usize));
        }
        fields.end()?;
        if slots.iter().flatten().copied().ne(0..leaves) {
            let message = "not a valid pullback: its arguments are not its leaves";
            return Err(Error::Saved(message.into()));
        }
        Ok(Pullback { inner, slots })
    }

    /// The program that it runs: from the cotangent and what it keeps to the cotangents of arguments.
    pub fn program(&self) -> &Program {
        self.inner.program()
    }

    /// The values that it keeps.
    pub fn residuals(&self) -> &[Array] {
        self.inner.residuals()
    }

    /// Bytes of the values that it keeps.
    pub fn nbytes(&self) -> usize {
        self.inner.nbytes()
    }
}

/// The program that a function records, and the arrays that it uses besides its arguments: these are
/// the program's last inputs. Nothing is computed.
///
/// ```
/// use cotan::{Array, DType, trace};
///
/// let x = Array::zeros(DType::F64, &[3])?;
/// let (program, _) = trace(|x| x[0].sin()?.sum(..), &[&x])?;
/// assert_eq!(program.to_string(), "\
/// program(%0: f64[3]) {
///   %1: f64[3] = sin(%0)
///   %2: f64[] = sum[axes=(0,)](%1)
///   return %2
/// }
/// ");
/// # Ok::<(), cotan::Error>(())
/// ```
pub fn trace<F>(f: F, args: &[&Array]) -> Result<(Program, Vec<Array>)>
where
    F: FnOnce(&[Array]) -> Result<Array>,
{
    let recording = Recording::new();
    let leaves: Vec<Array> = args.iter().map(|x| recording.leaf(x)).collect();
    let y = {
        let _history = KeepHistory::new(&recording);
        f(&leaves)?
    };
    autodiff::trace(&recording, &[&y], &leaves)
}

impl Program {
    /// Saves it to a file. The file appears whole or not at all; reading it runs nothing that is in it.
    ///
    /// Fails for a program that calls back, and for one with functions that have derivative rules of their
    /// own: the file would forget these.
    ///
    /// ```
    /// use cotan::Program;
    ///
    /// let program = Program::parse("program(%0: f64[]) {\n  %1: f64[] = exp(%0)\n  return %1\n}\n")?;
    /// let path = std::env::temp_dir().join(format!("cotan-doc-p{}.cotan", std::process::id()));
    /// program.save(&path)?;
    /// assert_eq!(Program::load(&path)?, program);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        Saved::new(Kind::Program, self.clone(), Vec::new()).save(path.as_ref())
    }

    /// Reads a program from a file; one of a pullback, too.
    pub fn load(path: impl AsRef<Path>) -> Result<Program> {
        Ok(Saved::load(path.as_ref())?.program)
    }
}

/// The cotangent to start from: ones of the dtype and shape of a result.
pub fn ones_like(y: &Array) -> Result<Array> {
    let dtype: DType = y.dtype();
    Array::full(dtype, y.shape(), 1.0)
}
