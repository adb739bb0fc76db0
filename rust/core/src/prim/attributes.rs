//! Reads parameters back from the names and texts that they are printed as.

use std::str::FromStr;

use num_complex::Complex;

use super::Params;
use crate::aval::{DType, SliceDim, WindowDim};
use crate::error::{Error, Result};

fn unreadable(what: &str) -> Error {
    Error::Program(format!("cannot read the parameter {what}"))
}

/// The parameters of one equation, by name.
struct Attributes<'a>(&'a [(String, String)]);

impl<'a> Attributes<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(k, _)| k == key);
        found.map(|(_, text)| text.as_str())
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// A number or a bool.
    fn parsed<T: FromStr>(&self, key: &str) -> Result<T> {
        let value = self.get(key).and_then(|text| text.parse().ok());
        value.ok_or_else(|| unreadable(key))
    }

    fn dtype(&self) -> Result<DType> {
        let dtype = self.get("dtype").and_then(DType::from_name);
        dtype.ok_or_else(|| unreadable("dtype"))
    }

    /// A tuple of integers.
    fn integers(&self, key: &str) -> Result<Vec<i64>> {
        let text = self.get(key).and_then(|text| text.strip_prefix('('));
        let inner = text.and_then(|text| text.strip_suffix(')'));
        (inner.ok_or_else(|| unreadable(key))?.split(','))
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(|item| item.parse().map_err(|_| unreadable(key)))
            .collect()
    }

    /// A tuple of lengths or positions.
    fn sizes(&self, key: &str) -> Result<Vec<usize>> {
        (self.integers(key)?.into_iter())
            .map(|i| usize::try_from(i).map_err(|_| unreadable(key)))
            .collect()
    }

    fn region(&self) -> Result<Box<[SliceDim]>> {
        let (starts, lens) = (self.sizes("start")?, self.sizes("len")?);
        let steps = self.integers("step")?;
        if starts.len() != lens.len() || starts.len() != steps.len() {
            return Err(unreadable("start, len and step: they differ in length"));
        }
        let steps = steps.into_iter().map(|step| step as isize);
        let dims = starts.into_iter().zip(lens).zip(steps);
        Ok(dims
            .map(|((start, len), step)| SliceDim { start, len, step })
            .collect())
    }

    fn windows(&self) -> Result<Box<[WindowDim]>> {
        let (places, taps) = (self.sizes("size")?, self.sizes("len")?);
        let pads = self.integers("pad")?;
        let (strides, dilations) = (self.sizes("stride")?, self.sizes("dilation")?);
        let expansions = self.sizes("expansion")?;
        let counts = [
            places.len(),
            taps.len(),
            pads.len(),
            strides.len(),
            dilations.len(),
        ];
        if counts.iter().any(|&n| n != expansions.len()) {
            return Err(unreadable(
                "expansion: the parameters of the window differ in length",
            ));
        }
        let dims = (0..expansions.len()).map(|i| WindowDim {
            size: places[i],
            len: taps[i],
            pad: pads[i] as isize,
            stride: strides[i],
            dilation: dilations[i],
            expansion: expansions[i],
        });
        Ok(dims.collect())
    }

    fn literal(&self) -> Result<Params> {
        let imag = if self.has("imag") {
            self.parsed("imag")?
        } else {
            0.0
        };
        Ok(Params::Literal {
            dtype: self.dtype()?,
            value: Complex::new(self.parsed("value")?, imag),
        })
    }
}

impl Params {
    /// The inverse of [`Params::attributes`]. Which names there are says which kind of parameters they are.
    pub fn from_attributes(attributes: &[(String, String)]) -> Result<Params> {
        let given = Attributes(attributes);
        Ok(if attributes.is_empty() {
            Params::None
        } else if let Some(name) = given.get("name") {
            let message = format!(
                "the custom rule or hook {name} cannot be read back from text; trace its function anew"
            );
            return Err(Error::Program(message));
        } else if given.has("expansion") {
            Params::Windows(given.windows()?)
        } else if given.has("inverse") {
            Params::Fourier {
                axes: given.sizes("axes")?.into(),
                inverse: given.parsed("inverse")?,
                scale: given.parsed("scale")?,
            }
        } else if given.has("folded") {
            Params::RealFourier {
                axis: given.parsed("axis")?,
                length: given.parsed("length")?,
                folded: given.parsed("folded")?,
                scale: given.parsed("scale")?,
            }
        } else if given.has("axes") {
            Params::Axes(given.sizes("axes")?.into())
        } else if given.has("reverse") {
            Params::Scan {
                reverse: given.parsed("reverse")?,
                axis: given.parsed("axis")?,
            }
        } else if given.has("lower") {
            Params::System {
                lower: given.parsed("lower")?,
                transposed: given.parsed("transposed")?,
                unit: given.parsed("unit")?,
            }
        } else if given.has("axis") {
            Params::Axis(given.parsed("axis")?)
        } else if given.has("start") {
            let dims = given.region()?;
            if given.has("shape") {
                let shape = given.sizes("shape")?.into();
                Params::Region { shape, dims }
            } else {
                Params::Slice(dims)
            }
        } else if given.has("shape") {
            Params::Shape(given.sizes("shape")?.into())
        } else if given.has("value") {
            given.literal()?
        } else if given.has("right") {
            Params::Side {
                right: given.parsed("right")?,
            }
        } else if given.has("size") {
            Params::Size(given.parsed("size")?)
        } else {
            Params::DType(given.dtype()?)
        })
    }
}
