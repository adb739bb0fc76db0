//! A program for memory of known layout, which is looked at once, for running it again and again.

use smallvec::SmallVec;

use super::program::Fused;
use super::strided_input::Source;
use crate::error::{Error, Result};
use crate::kernels::placed::{Reach, outside};
use crate::kernels::{Ctx, Storage, Value};

/// An address that threads share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address(pub(super) *mut u8);

// SAFETY: chunks write to disjoint elements behind it.
unsafe impl Sync for Address {}
// SAFETY: as above.
unsafe impl Send for Address {}

/// What a run knows of its values.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) sources: SmallVec<[Source; 8]>,
    pub(super) outputs: SmallVec<[Address; 4]>,
    /// For every reduction, where partial results that chunks leave go.
    pub(super) partials: SmallVec<[Address; 4]>,
}

/// How inputs and outputs of a program lie, wherever they do.
#[derive(Debug)]
pub struct FusedLayout {
    /// Each as if it began at address zero.
    sources: Box<[(Source, Reach)]>,
    outputs: Box<[Reach]>,
    /// Whether a run is one tile of operands that are read where they lie.
    is_short: bool,
}

impl Fused {
    /// Checks values that stand for those of later runs: these have their dtypes, shapes and strides, and lie as
    /// many bytes off a multiple of eight. No output lies in the memory of an input.
    ///
    /// # Errors
    /// When they do not fit.
    pub fn layout(&self, inputs: &[Value], outputs: &[Value]) -> Result<FusedLayout> {
        self.check(inputs, outputs)?;
        let sources = (self.inputs.iter().zip(inputs)).map(|(input, v)| {
            let source = Source::new(v, self.space(input), false);
            (source.at(std::ptr::null()), Reach::of(v))
        });
        let sources: Box<[(Source, Reach)]> = sources.collect();
        Ok(FusedLayout {
            is_short: self.is_short(sources.iter().map(|(source, _)| source)),
            sources,
            outputs: outputs.iter().map(Reach::of).collect(),
        })
    }

    /// Runs the program on values of a layout in `memory`, whose first elements are at these places: those of the
    /// inputs, then those of the outputs. Nobody else uses the outputs meanwhile.
    ///
    /// # Errors
    /// When one does not lie inside of the memory, and those of a run.
    pub fn run_at(
        &self,
        layout: &FusedLayout,
        memory: &Storage,
        mut places: impl Iterator<Item = usize>,
        ctx: &Ctx,
    ) -> Result<()> {
        if layout.sources.len() != self.inputs.len() || layout.outputs.len() != self.outputs.len() {
            return Err(Error::Program("the layout of another group".into()));
        }
        let base = memory.as_ptr();
        let mut place = |reach: Reach| match places.next() {
            Some(place) if reach.is_inside(memory, place) => Ok(base.wrapping_add(place)),
            _ => Err(outside()),
        };
        if layout.is_short {
            ctx.check()?;
            let inputs = (layout.sources.iter()).map(|(source, reach)| (Some(source), reach));
            let all = inputs.chain(layout.outputs.iter().map(|reach| (None, reach)));
            let operands = all.map(|(source, &reach)| Ok((source, place(reach)?)));
            // SAFETY: as far as the operands reach they lie inside, and they are like those of the layout.
            return unsafe { self.run_short(operands) };
        }
        let mut bound = Bound {
            sources: SmallVec::new(),
            outputs: SmallVec::new(),
            partials: SmallVec::new(),
        };
        for (source, reach) in &layout.sources {
            bound.sources.push(source.at(place(*reach)?));
        }
        for reach in &layout.outputs {
            bound.outputs.push(Address(place(*reach)?));
        }
        self.run_bound(&mut bound, ctx)
    }
}
