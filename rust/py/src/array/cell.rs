//! Gives immutable values the semantics of an ndarray: a cell holds a lazily computed value, writes replace it, and
//! views read and write the array that they are views of.
//!
//! Values are immutable; writing in place gives the array another value. A view keeps the array it
//! is a view of: reading it looks whether that was written to, writing to it writes there. Elements
//! and rows that are written one at a time wait in [`Pieces`] until somebody reads the whole.

use std::sync::Arc;

use cotan::aval::{Shape, Strides, row_major};
use cotan::kernels::Value;
use cotan::{Array, Number};
use pyo3::prelude::*;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use spin::relax::Yield;

use crate::array::captured_leaves;
use crate::array::host_inputs;
use crate::array::lent_memory::LentMemory;
use crate::array::pending_writes::{Found, Pieces};
use crate::array::scalar_classes;
use crate::array::view_op::Gathered;
use crate::array::view_op::ViewOp;
use crate::ndarray::export::to_numpy_scalar;
use crate::runtime::error::OrRaise;
use crate::runtime::recording_state::is_anything_recorded;

/// What NumPy would have handed out in place of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScalarKind {
    /// An ndarray, which can be written to in place.
    Array,
    /// A NumPy scalar, which cannot.
    NumpyScalar,
    /// A Python number, whose dtype yields to that of arrays it meets.
    PythonNumber,
}

impl ScalarKind {
    /// What Python and saved files call it.
    pub fn name(self) -> &'static str {
        match self {
            ScalarKind::Array => "array",
            ScalarKind::NumpyScalar => "scalar",
            ScalarKind::PythonNumber => "number",
        }
    }

    /// The kind that is called so.
    pub fn named(name: &str) -> Option<ScalarKind> {
        let all = [Self::Array, Self::NumpyScalar, Self::PythonNumber];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

/// What an `Array` of Python's holds.
pub struct Cell {
    /// The value, but for the pieces.
    pub array: Array,
    /// What was written into it since, in an array that is no view.
    pub(super) pieces: Option<Box<Pieces>>,
    /// Grows with every write.
    pub(super) version: u64,
    /// For a view: the version of its base that it was read from.
    pub(super) seen: u64,
    /// What the strides of NumPy's memory would be, in elements; `None` for row-major ones.
    pub strides: Option<Box<Strides>>,
    /// The memory that the elements of an array that is no view live in while other code may write to them.
    pub(crate) lent: Option<Arc<LentMemory>>,
    /// Memory that was lent before, and that pointers may lead to.
    pub(super) left: Option<Box<Left>>,
}

/// Memory that is kept for the pointers into it. Few arrays have any, so that it takes one word of each.
#[derive(Default)]
pub(super) struct Left(Vec<Arc<LentMemory>>);

/// A lock that costs one atomic operation, not two: it is taken for every operand of every operation that
/// is recorded, is held for moments and, but in builds without the interpreter lock, never contended.
type Lock<T> = SpinMutex<T, Yield>;

impl Cell {
    fn new(array: Array) -> Cell {
        Cell {
            array,
            pieces: None,
            version: 0,
            seen: 0,
            strides: None,
            lent: None,
            left: None,
        }
    }

    /// Whether nothing was written, by us or by other code, that is not in the value.
    pub(super) fn is_settled(&self) -> bool {
        self.pieces.is_none() && self.lent.is_none()
    }

    /// Lends its memory no longer. What pointers may lead to stays.
    pub(super) fn end_lending(&mut self) {
        if let Some(memory) = self.lent.take().filter(|lent| lent.is_pinned()) {
            self.left.get_or_insert_default().0.push(memory);
        }
    }

    /// Puts together what was written.
    pub(super) fn settle(&mut self) -> PyResult<()> {
        if let Some(pieces) = self.pieces.take() {
            self.array = pieces.settle(&self.array).or_raise()?;
        }
        if let Some(lent) = self.lent.clone() {
            let found = lent.follow(&mut self.array)?;
            self.version += u64::from(found.has_changed);
            self.lent = Some(lent).filter(|_| found.is_shared);
        }
        Ok(())
    }

    /// The pieces, numbered along so many axes.
    pub(super) fn pieces(&mut self, depth: usize) -> PyResult<&mut Pieces> {
        if self.pieces.as_ref().is_some_and(|p| p.depth() != depth) {
            self.settle()?;
        }
        Ok(self
            .pieces
            .get_or_insert_with(|| Box::new(Pieces::new(depth))))
    }
}

/// A lazily computed array.
///
/// Arithmetic on it is recorded and computed when somebody reads the value: by printing it,
/// `numpy.asarray`, `float`, a comparison in an `if`, or `force`. dtypes: bool, int8 to int64, uint8 to
/// uint64, float16, bfloat16, float32, float64, complex64, complex128.
///
/// >>> import cotan as ct
/// >>> x = ct.array([1.0, 2.0, 3.0])
/// >>> y = x * x + 1
/// >>> y.is_forced
/// False
/// >>> y
/// Array([ 2.,  5., 10.])
// Most arrays live for one line of code. From the list they come back without a visit to Python's allocator, and
// without being linked again into its garbage collector, for which pyo3 marks every class, and to which they show
// nothing.
#[pyclass(frozen, weakref, freelist = 256, name = "Array", module = "cotan")]
pub struct PyArray {
    cell: Lock<Cell>,
    pub(crate) scalar_kind: ScalarKind,
    /// Whether it substitutes for an ndarray that NumPy has made while something is recorded: elements into
    /// which nothing else was written are read as NumPy's scalars.
    is_buffer: bool,
    /// Whether it was made while something was recorded in the process: without cotan it would be NumPy's.
    is_recorded: bool,
    pub(crate) view: Option<Box<View>>,
}

/// A view: its base, and what it shows of it.
pub struct View {
    /// What it is a view of.
    pub base: Py<PyArray>,
    /// The shape that the base had then. The base may be given another one since, which leaves its
    /// elements in their order.
    pub shape: Shape,
    /// What it shows.
    pub op: ViewOp,
    /// How many views it is a view of, itself included.
    pub depth: usize,
}

/// As many views of views are kept as they are.
const MAX_VIEWS: usize = 64;

/// What is written into one element.
pub enum Element {
    /// A number, which is constant.
    Number(Number),
    /// An array without axes.
    Array(Array),
}

impl Element {
    pub(super) fn is_complex(&self) -> bool {
        match self {
            Element::Number(number) => matches!(number, Number::Complex(_)),
            Element::Array(array) => array.dtype().is_complex(),
        }
    }
}

/// Whether this thread reads some arrays as other values than they hold.
#[inline]
pub(super) fn is_read_otherwise() -> bool {
    captured_leaves::any() || host_inputs::any()
}

/// An array as a Python object.
pub fn wrap(py: Python<'_>, array: Array, scalar_kind: ScalarKind) -> PyResult<Bound<'_, PyAny>> {
    let dtype = array.dtype();
    let object = Bound::new(py, PyArray::new(array, scalar_kind))?.into_any();
    if scalar_kind != ScalarKind::Array {
        let is_numpy = scalar_kind == ScalarKind::NumpyScalar;
        scalar_classes::classify(&object, is_numpy, dtype);
    }
    Ok(object)
}

/// The result of a reduction or an index: a scalar when it has no axes.
pub fn wrap_result(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyAny>> {
    let scalar_kind = if array.shape().is_empty() {
        ScalarKind::NumpyScalar
    } else {
        ScalarKind::Array
    };
    wrap(py, array, scalar_kind)
}

impl PyArray {
    /// An array that is no view.
    pub fn new(array: Array, scalar_kind: ScalarKind) -> PyArray {
        PyArray {
            cell: Lock::new(Cell::new(array)),
            scalar_kind,
            is_buffer: false,
            is_recorded: is_anything_recorded(),
            view: None,
        }
    }

    /// An array in place of an ndarray that NumPy has just made.
    pub fn buffer(value: Value) -> PyArray {
        PyArray {
            is_buffer: true,
            ..PyArray::new(Array::constant(value), ScalarKind::Array)
        }
    }

    /// A view of another array. A view of a view is one of the first's base where it can be, and chains are short in
    /// any case: they are read and dropped one in the other.
    pub fn view_of(base: &Bound<'_, PyArray>, op: ViewOp) -> PyResult<PyArray> {
        let py = base.py();
        if let Some(view) = base.get().view.as_deref() {
            let is_as_it_was = view.base.get().own_shape() == view.shape;
            let joined =
                is_as_it_was.then(|| op.after(&view.op, &view.shape, &base.get().own_shape()));
            if let Some(op) = joined.flatten() {
                return PyArray::view_of(view.base.bind(py), op);
            }
            if view.depth >= MAX_VIEWS
                && let Some(short) = base.get().shortened(py)?
            {
                return PyArray::view_of(&Bound::new(py, short)?, op);
            }
        }
        let source = base.get();
        let (array, seen) = if let Some(piece) = source.piece(&op)? {
            piece
        } else {
            let (value, seen) = source.read_versioned()?;
            (op.read(&value)?, seen)
        };
        let (shape, strides) = {
            let cell = source.cell();
            let shape = cell.array.shape();
            (shape.into(), op.strides(shape, cell.strides.as_deref()))
        };
        let view = View {
            base: base.clone().unbind(),
            shape,
            op,
            depth: source.view.as_ref().map_or(0, |v| v.depth) + 1,
        };
        let mut made = PyArray::new(array, ScalarKind::Array);
        let cell = made.cell.get_mut();
        (cell.seen, cell.strides) = (seen, strides.map(Box::new));
        made.view = Some(Box::new(view));
        made.is_recorded |= source.is_recorded;
        Ok(made)
    }

    /// The views that it is a view of, itself first, as long as elements have positions, and the array that the
    /// last of these begins at.
    pub(crate) fn chain(&self) -> (Vec<&View>, &PyArray) {
        let mut chain = Vec::new();
        let mut source = self;
        while let Some(view) = source.view.as_deref().filter(|v| v.op.has_positions()) {
            chain.push(view);
            source = view.base.get();
        }
        (chain, source)
    }

    /// The same view of the array that its chain of views begins at, by the positions of its elements there; `None`
    /// for parts of complex numbers, which have no such positions.
    fn shortened(&self, py: Python<'_>) -> PyResult<Option<PyArray>> {
        let (chain, _) = self.chain();
        let Some(first) = chain.last().filter(|_| chain.len() > 1) else {
            return Ok(None);
        };
        let shape = self.own_shape();
        let writeable = chain.iter().all(|view| view.op.is_writeable());
        let positions = self.traced_back()?.0.to_vec::<i64>().or_raise()?;
        let gathered = Gathered::new(&positions, &shape, &self.own_strides(), writeable, None)?;
        let op = ViewOp::Gather(Arc::new(gathered));
        PyArray::view_of(first.base.bind(py), op).map(Some)
    }

    /// The strides, in elements, as NumPy's memory would have them.
    pub fn own_strides(&self) -> Strides {
        let cell = self.cell();
        let strides = cell.strides.as_deref().cloned();
        strides.unwrap_or_else(|| row_major(cell.array.shape()))
    }

    /// Whether elements can be written: a view by what it is a view of, too.
    pub fn is_writeable(&self) -> bool {
        let through = |view: &View| view.op.is_writeable() && view.base.get().is_writeable();
        self.scalar_kind == ScalarKind::Array && self.view.as_deref().is_none_or(through)
    }

    pub(crate) fn cell(&self) -> SpinMutexGuard<'_, Cell, Yield> {
        self.cell.lock()
    }

    /// What NumPy would have handed out.
    pub fn scalar_kind(&self) -> ScalarKind {
        self.scalar_kind
    }

    /// Whether NumPy made it while something is recorded, or it is a view of what NumPy made.
    pub fn is_made(&self) -> bool {
        self.is_buffer || (self.view.as_ref()).is_some_and(|v| v.base.get().is_buffer)
    }

    /// Whether it is there because something was recorded: what a recording leaves behind serves like what NumPy
    /// would have made.
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Whether it is a view of another array.
    pub fn is_view(&self) -> bool {
        self.view.is_some()
    }

    /// Its dtype, which no write changes.
    pub fn own_dtype(&self) -> cotan::DType {
        self.cell().array.dtype()
    }

    /// Its shape.
    pub fn own_shape(&self) -> Shape {
        Shape::from_slice(self.cell().array.shape())
    }

    /// Whether NumPy's memory of this array would be in row-major order without gaps: a reshape is
    /// a view then, else a copy.
    pub fn is_contiguous(&self) -> bool {
        self.view.is_none() || self.cell().strides.is_none()
    }

    /// Its value at this moment.
    #[inline]
    pub fn read(&self) -> PyResult<Array> {
        if self.view.is_none() && !is_read_otherwise() {
            let cell = self.cell();
            if cell.is_settled() {
                return Ok(cell.array.clone());
            }
        }
        self.put_together()
    }

    /// The same of an array that was written to, or is a view, or is bound to a leaf.
    #[inline(never)]
    pub(super) fn put_together(&self) -> PyResult<Array> {
        if is_read_otherwise()
            && let Some(array) = self.read_bound()?
        {
            return Ok(array);
        }
        if self.view.is_none() {
            let mut cell = self.cell();
            cell.settle()?;
            return Ok(cell.array.clone());
        }
        Ok(self.read_versioned()?.0)
    }

    /// What a view of it shows, and the version of that, where the whole need not be put together.
    pub(super) fn piece(&self, op: &ViewOp) -> PyResult<Option<(Array, u64)>> {
        if self.view.is_some() {
            return Ok(None);
        }
        let cell = self.cell();
        let Some(pieces) = &cell.pieces else {
            return Ok(None);
        };
        let ViewOp::Index(_, out) = op else {
            return Ok(None);
        };
        let array = match pieces.part(cell.array.shape(), op) {
            Found::Piece(piece) => piece.reshape(out).or_raise()?,
            Found::Below => op.read(&cell.array)?,
            Found::Mixed => return Ok(None),
        };
        Ok(Some((array, cell.version)))
    }

    /// Whether it holds such a value, is no view, is bound to no leaf, and nothing waits to be written into it.
    pub fn holds(&self, test: impl FnOnce(&Array) -> bool) -> bool {
        if self.view.is_some() || is_read_otherwise() {
            return false;
        }
        let cell = self.cell();
        cell.is_settled() && test(&cell.array)
    }

    /// The array that an element of this one belongs to, and its position there.
    pub(super) fn owner(&self, mut at: usize) -> Option<(&PyArray, usize)> {
        let mut owner = self;
        while let Some(view) = &owner.view {
            at = view.op.source(&view.shape, at)?;
            owner = view.base.get();
        }
        Some((owner, at))
    }

    /// An element, where the whole need not be put together for it; by its position in row-major
    /// order.
    pub fn element<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        if is_read_otherwise() {
            return Ok(None);
        }
        let Some((owner, at)) = self.owner(at) else {
            return Ok(None);
        };
        let cell = owner.cell();
        if cell.lent.is_some() {
            return Ok(None);
        }
        if let Some(pieces) = &cell.pieces {
            match pieces.element(cell.array.shape(), at) {
                Found::Piece(piece) => {
                    let piece = piece.reshape(&[]).or_raise()?;
                    drop(cell);
                    return Ok(Some(wrap(py, piece, ScalarKind::NumpyScalar)?));
                }
                Found::Mixed => return Ok(None),
                Found::Below => {}
            }
        }
        let value = match cell.array.value() {
            Some(value) if owner.is_buffer && cell.array.tag() == 0 => value,
            _ if cell.pieces.is_none() => return Ok(None),
            _ => {
                let flat = cell.array.reshape(&[cell.array.aval().size()]).or_raise()?;
                drop(cell);
                let one = ViewOp::element(at).read(&flat)?;
                return Ok(Some(wrap(py, one, ScalarKind::NumpyScalar)?));
            }
        };
        if !value.is_contiguous() {
            return Ok(None);
        }
        let element = value.element(at);
        drop(cell);
        Ok(Some(to_numpy_scalar(py, &element)?))
    }

    /// Its value in this thread, if it or what it is a view of is bound to a leaf, or read in a call that is watched.
    pub(super) fn read_bound(&self) -> PyResult<Option<Array>> {
        if let Some(array) = captured_leaves::get(self) {
            let other = if host_inputs::any() {
                host_inputs::read(&array)?
            } else {
                None
            };
            return Ok(Some(other.unwrap_or(array)));
        }
        let Some(view) = &self.view else {
            if !host_inputs::any() {
                return Ok(None);
            }
            let array = {
                let mut cell = self.cell();
                cell.settle()?;
                cell.array.clone()
            };
            return host_inputs::read(&array);
        };
        match view.base.get().read_bound()? {
            Some(source) => Ok(Some(view.op.read(&source)?)),
            None => Ok(None),
        }
    }

    pub(super) fn read_versioned(&self) -> PyResult<(Array, u64)> {
        if let Some(view) = &self.view {
            let base = view.base.get();
            let piece = if base.cell().array.shape() == view.shape.as_slice() {
                base.piece(&view.op)?
            } else {
                None
            };
            let (array, version) = match piece {
                Some((array, version)) => (Some(array), version),
                None => (None, base.read_versioned()?.1),
            };
            if self.cell().seen != version {
                let array = if let Some(array) = array {
                    array
                } else {
                    let source = base.read_versioned()?.0;
                    view.op.read(&source.reshape(&view.shape).or_raise()?)?
                };
                let mut cell = self.cell();
                cell.array = array.reshape(cell.array.shape()).or_raise()?;
                cell.seen = version;
                cell.version += 1;
            }
        }
        let mut cell = self.cell();
        cell.settle()?;
        Ok((cell.array.clone(), cell.version))
    }
}
