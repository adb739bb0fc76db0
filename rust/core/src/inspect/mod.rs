//! Looking at derivatives: what a pullback keeps in memory and why, and which equation made the first NaN
//! or infinity.

pub(crate) mod nonfinite;
pub(crate) mod report;
mod stretches;

pub use nonfinite::{
    NonFinite, Origin, Range, Reached, begin_detection, end_detection, is_detecting,
};
pub use report::{Report, Residual, Source};
pub use stretches::Stretch;
