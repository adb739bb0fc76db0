//! Machine code bound to the memory that it reads and writes, and such memory in one piece.

use std::sync::Arc;

use super::Code;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::kernels::{Form, Storage, Value};

/// Compiled code and where its inputs and outputs lie.
#[derive(Debug)]
pub struct BoundCode {
    code: Arc<Code>,
    table: Box<[usize]>,
    /// What the table points into.
    _memory: Box<[Arc<Storage>]>,
}

impl BoundCode {
    /// Binds code to contiguous values of the dtypes and sizes that it was made for. The outputs share no memory with
    /// each other or with the inputs, and nobody uses them while it runs.
    ///
    /// # Errors
    /// When the values are others.
    pub fn new(code: &Arc<Code>, inputs: &[Value], outputs: &[Value]) -> Result<BoundCode> {
        let wanted = || code.inputs().iter().chain(code.outputs());
        let values = || inputs.iter().chain(outputs);
        let fits = |(value, &(dtype, size)): (&Value, &(_, usize))| {
            value.dtype() == dtype
                && value.aval().size() == size
                && value.is_contiguous()
                && !value.is_remote()
                && value.address().is_multiple_of(dtype.size())
        };
        if wanted().count() != values().count() || !values().zip(wanted()).all(fits) {
            return Err(Error::Program(
                "machine code: other values than it was made for".into(),
            ));
        }
        // Neighbours mostly lie in one piece of memory; one that is held twice does no harm.
        let mut memory: Vec<Arc<Storage>> = Vec::new();
        for value in values() {
            if memory
                .iter()
                .rev()
                .take(4)
                .all(|m| !Arc::ptr_eq(m, value.storage()))
            {
                memory.push(Arc::clone(value.storage()));
            }
        }
        Ok(BoundCode {
            code: Arc::clone(code),
            table: values().map(Value::address).collect(),
            _memory: memory.into(),
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// Those of a [`Breakdown`](super::Breakdown).
    pub fn run(&mut self) -> Result<()> {
        // SAFETY: `new` has looked at what the table points to, and the memory is held.
        let breakdown = unsafe { self.code.run(self.table.as_ptr().cast()) };
        breakdown.map_or(Ok(()), |why| Err(why.error()))
    }
}

/// Fresh row-major arrays side by side in one piece of memory, with undefined contents.
///
/// # Errors
/// When there is no memory.
pub fn carve(avals: &[Aval]) -> Result<Vec<Value>> {
    let mut end = 0usize;
    let places: Vec<usize> = avals
        .iter()
        .map(|aval| {
            let place = end;
            end = place.saturating_add(aval.nbytes()).next_multiple_of(8);
            place
        })
        .collect();
    let storage = Arc::new(Storage::allocate(end)?);
    let value = |(aval, place): (&Aval, usize)| Form::dense(aval.clone()).at(&storage, place);
    avals.iter().zip(places).map(value).collect()
}

/// What is there without a code generator.
#[cfg(not(feature = "machine-code"))]
pub(super) mod no_machine {
    use std::sync::Arc;

    use crate::aval::DType;
    use crate::kernels::{Breakdown, ScalarCode};

    /// A compiled function, of which there is none.
    #[derive(Debug)]
    pub enum Code {}

    impl Code {
        /// Nothing is compiled.
        pub fn compile(_: &[ScalarCode]) -> Option<Vec<Arc<Code>>> {
            None
        }

        pub(in super::super) fn inputs(&self) -> &[(DType, usize)] {
            match *self {}
        }

        pub(in super::super) fn outputs(&self) -> &[(DType, usize)] {
            match *self {}
        }

        pub(in super::super) unsafe fn run(&self, _: *const *mut u8) -> Option<Breakdown> {
            match *self {}
        }
    }
}
