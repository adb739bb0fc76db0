//! The one error type. A message names the operation, the argument, the shapes or dtypes that do
//! not fit, and what to write instead.

use std::fmt;
use std::sync::Arc;

/// An error of foreign code, passed on as it is.
#[derive(Debug, Clone)]
pub struct Foreign(pub Arc<dyn std::error::Error + Send + Sync>);

impl PartialEq for Foreign {
    fn eq(&self, other: &Foreign) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Foreign {}

/// Why an operation, a transform or a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Shapes that do not fit together, or an axis that does not exist.
    Shape(String),
    /// A dtype that an operation does not take.
    DType(String),
    /// A value outside what an operation accepts (an index out of range, say).
    Index(String),
    /// A matrix that does not allow a decomposition: singular, not positive definite, not square.
    LinAlg(String),
    /// Something that has no derivative was asked for one.
    NotDifferentiable(String),
    /// The value of a cotangent was read while its rule is traced; dtype and shape of the cotangent.
    UnknownValue(String),
    /// A program that is not well formed, or text that does not parse.
    Program(String),
    /// A saved program or pullback that is damaged or of a later version, or something that cannot be saved.
    Saved(String),
    /// The system has no memory left for a buffer of this many bytes.
    Memory(usize),
    /// A text that is not the name of a device.
    DeviceName(String),
    /// A device that is not there, cannot do what is asked of it, or was lost; arrays of two devices.
    Device(String),
    /// The user asked to stop.
    Interrupted,
    /// Foreign code that was called back failed.
    Foreign(Foreign),
}

/// What nearly every function here returns.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Shape(m)
            | Error::DType(m)
            | Error::Index(m)
            | Error::LinAlg(m)
            | Error::NotDifferentiable(m)
            | Error::Program(m)
            | Error::Saved(m)
            | Error::DeviceName(m)
            | Error::Device(m) => f.write_str(m),
            Error::UnknownValue(aval) => write!(
                f,
                "the value of a cotangent ({aval}) is not known while its rule is traced, so it cannot be \
                 printed, branched on or handed to other libraries; choose with where(), or use a rule that \
                 is called with values: adjoint(opaque=True), or hook"
            ),
            Error::Foreign(Foreign(error)) => error.fmt(f),
            Error::Memory(bytes) => write!(f, "cannot allocate {bytes} bytes"),
            Error::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Foreign(Foreign(Arc::new(error)))
    }
}
