//! Defines the methods of the Python class `Array`.
// The buffer protocol hands over a pointer.
#![allow(unsafe_code)]

use std::sync::{Arc, OnceLock};

use cotan::aval::{Kind, row_major};
use cotan::ops;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyAttributeError, PyImportError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::array::call_site::expect_no_shuffle;
use crate::array::cell::{PyArray, ScalarKind};
use crate::array::escapes;
use crate::array::escapes::compute;
use crate::array::escapes::refuse_active;
use crate::array::memory;
use crate::array::operand::Operand;
use crate::array::operators::{binary, bits, foreign, positive, quotient_and_rest, unary};
use crate::array::repr;
use crate::array::to_host::{self, given_out, item, whole};
use crate::array::view::{copied, part, set_part, transpose_view};
use crate::array::view_op::Gathered;
use crate::array::view_op::ViewOp;
use crate::ndarray::memory::original;
use crate::runtime::error::OrRaise;
use crate::runtime::hooks;

/// Methods of the class that layers above compute. They give them when the module is made.
pub struct Registered {
    pub array_ufunc: ArrayUfunc,
    pub array_function: ArrayFunction,
    pub reduce: Reduce,
}

/// `__array_ufunc__`: the ufunc, its method, arguments and keyword arguments.
type ArrayUfunc = for<'py> fn(
    Python<'py>,
    &Bound<'py, PyAny>,
    &Bound<'py, PyString>,
    &Bound<'py, PyTuple>,
    Option<&Bound<'py, PyDict>>,
) -> PyResult<Py<PyAny>>;

/// `__array_function__`: the function, the classes that have the protocol, arguments and keyword arguments.
type ArrayFunction = for<'py> fn(
    Python<'py>,
    &Bound<'py, PyAny>,
    &Bound<'py, PyAny>,
    &Bound<'py, PyTuple>,
    &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>>;

/// `__reduce_ex__`, with the version of the protocol.
type Reduce = for<'py> fn(&PyArray, Python<'py>, i32) -> PyResult<Bound<'py, PyAny>>;

static REGISTERED: OnceLock<Registered> = OnceLock::new();

/// Gives the methods that layers above compute, once.
pub fn register(methods: Registered) {
    let _ = REGISTERED.set(methods);
}

fn registered() -> PyResult<&'static Registered> {
    let missing = || PyImportError::new_err("cotan._core has not been initialised");
    REGISTERED.get().ok_or_else(missing)
}

#[pymethods]
impl PyArray {
    /// Length of every axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.cell().array.shape())
    }

    /// Gives the array another shape in place; one length may be -1.
    ///
    /// Raises `ValueError` when the elements do not fit, `AttributeError` for a scalar, and for a view
    /// that NumPy could not give the shape without a copy.
    #[setter]
    fn set_shape(&self, shape: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.scalar_kind != ScalarKind::Array {
            return Err(PyAttributeError::new_err(
                "shape: a scalar has no shape to set; use np.reshape(x, shape)",
            ));
        }
        let shape = crate::array::axes::shape_for(&self.read()?, shape)?;
        self.set_own_shape(&shape)
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.cell().array.shape().len()
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.cell().array.aval().size()
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.cell().array.dtype().size()
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.cell().array.nbytes()
    }

    /// The NumPy dtype.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dtype = self.cell().array.dtype();
        Ok(crate::ndarray::dtype::descr(py, dtype)?.into_any())
    }

    #[setter]
    #[allow(clippy::unused_self)]
    fn set_dtype(&self, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyAttributeError::new_err(
            "dtype: an Array has no memory to see in another way; use x.astype(dtype)",
        ))
    }

    /// Whether the value has been computed.
    ///
    /// >>> import cotan as ct
    /// >>> (ct.array([1.0]) * 2).is_forced
    /// False
    #[getter]
    fn is_forced(&self) -> PyResult<bool> {
        Ok(self.read()?.is_forced())
    }

    /// Computes the value, if that has not been done yet, and gives the array back.
    ///
    /// Raises `MemoryError` when there is no memory for it and `KeyboardInterrupt` on Ctrl-C.
    ///
    /// >>> import cotan as ct
    /// >>> (ct.array([1.0]) * 2).force().is_forced
    /// True
    fn force(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let array = slf.get().read()?;
        compute(slf.py(), &array)?;
        escapes::root(&array);
        Ok(slf)
    }

    /// `"array"`, `"scalar"` or `"number"`: what NumPy would have handed out.
    #[getter]
    fn _rank(&self) -> &'static str {
        self.scalar_kind.name()
    }

    /// Whether its memory in NumPy would be in row-major order.
    #[getter]
    fn _contiguous(&self) -> bool {
        self.is_contiguous()
    }

    /// Whether it may be written to.
    #[getter]
    fn _writeable(&self) -> bool {
        self.is_writeable()
    }

    /// What the strides of its memory in NumPy would be, in elements.
    #[getter]
    fn _strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let cell = self.cell();
        let strides = cell.strides.as_deref().cloned();
        PyTuple::new(py, strides.unwrap_or_else(|| row_major(cell.array.shape())))
    }

    /// The array that this one is a view of.
    #[getter]
    fn base(&self, py: Python<'_>) -> Option<Py<PyArray>> {
        self.view.as_ref().map(|v| v.base.clone_ref(py))
    }

    fn __add__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::ADD, false)
    }
    fn __radd__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::ADD, true)
    }
    fn __sub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::SUB, false)
    }
    fn __rsub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::SUB, true)
    }
    fn __mul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::MUL, false)
    }
    fn __rmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::MUL, true)
    }
    fn __truediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::DIV, false)
    }
    fn __rtruediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::DIV, true)
    }
    fn __floordiv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::FLOOR_DIVIDE, false)
    }
    fn __rfloordiv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::FLOOR_DIVIDE, true)
    }
    fn __mod__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::REMAINDER, false)
    }
    fn __rmod__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::REMAINDER, true)
    }
    fn __divmod__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        quotient_and_rest(slf, other, false)
    }
    fn __rdivmod__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        quotient_and_rest(slf, other, true)
    }
    fn __pow__(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, PyAny>,
        modulo: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        if !modulo.is_none() {
            return Err(PyTypeError::new_err("pow: arrays have no third argument"));
        }
        binary(slf, other, ops::POW, false)
    }
    fn __rpow__(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, PyAny>,
        modulo: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        if !modulo.is_none() {
            return Err(PyTypeError::new_err("pow: arrays have no third argument"));
        }
        binary(slf, other, ops::POW, true)
    }
    fn __matmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match Operand::of(other)? {
            Some(_) => Ok(crate::array::matmul::matmul(slf.as_any(), other)?.unbind()),
            None => foreign(slf, other, "np.matmul", false),
        }
    }
    fn __rmatmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match Operand::of(other)? {
            Some(_) => Ok(crate::array::matmul::matmul(other, slf.as_any())?.unbind()),
            None => foreign(slf, other, "np.matmul", true),
        }
    }
    fn __and__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        bits(slf, other, ops::BITWISE_AND)
    }
    fn __rand__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        bits(slf, other, ops::BITWISE_AND)
    }
    fn __or__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        bits(slf, other, ops::BITWISE_OR)
    }
    fn __ror__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        bits(slf, other, ops::BITWISE_OR)
    }
    fn __xor__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        bits(slf, other, ops::BITWISE_XOR)
    }
    fn __rxor__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        bits(slf, other, ops::BITWISE_XOR)
    }
    fn __lshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::LEFT_SHIFT, false)
    }
    fn __rlshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::LEFT_SHIFT, true)
    }
    fn __rshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::RIGHT_SHIFT, false)
    }
    fn __rrshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::RIGHT_SHIFT, true)
    }
    fn __neg__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        unary(slf, ops::NEG)
    }
    fn __pos__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        positive(slf)
    }
    fn __abs__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        unary(slf, ops::ABS)
    }
    fn __invert__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        unary(slf, ops::INVERT)
    }
    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::EQ, false)
    }
    fn __ne__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::NE, false)
    }
    fn __lt__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::LT, false)
    }
    fn __le__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::LE, false)
    }
    fn __gt__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::GT, false)
    }
    fn __ge__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, ops::GE, false)
    }

    /// By identity for arrays: `g[a.a1]` in a mapping of gradients, and because they are rebound in place. By value
    /// for scalars, as NumPy's: `groups[x // 10]` of a dictionary. One that carries a derivative is no key.
    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<isize> {
        let this = slf.get();
        if this.scalar_kind == ScalarKind::Array {
            return Ok((slf.as_ptr() as usize >> 4).cast_signed());
        }
        to_host::key(slf.py(), &this.read()?)?.hash()
    }

    /// Python code hides it for scalars: `hasattr(x, "__iter__")` is how user code asks for arrays.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        hooks::ELEMENTS.get(slf.py())?.call1((slf,))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let (length, has_rows) = {
            let cell = self.cell();
            let shape = cell.array.shape();
            (shape.first().copied(), shape.len() > 1)
        };
        if has_rows {
            expect_no_shuffle(py)?;
        }
        length.ok_or_else(|| PyTypeError::new_err("len() of unsized object"))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        to_host::truth(self, py)
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        to_host::float(self, py)
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = self.read()?;
        refuse_active(py, &array, "complex(x)", "compute with x itself")?;
        to_host::expect_number(py, &array, "__complex__")?;
        py.get_type::<pyo3::types::PyComplex>()
            .call1((item(py, &array)?,))
    }

    /// Piecewise constant, so no derivative is lost.
    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_host::expect_number(py, &self.read()?, "__int__")?;
        py.get_type::<pyo3::types::PyInt>()
            .call1((whole(py, &self.read()?, ops::TRUNC)?,))
    }

    fn __trunc__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.__int__(py)
    }

    fn __floor__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        original(py, "math", "floor")?.call1((whole(py, &self.read()?, ops::FLOOR)?,))
    }

    fn __ceil__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        original(py, "math", "ceil")?.call1((whole(py, &self.read()?, ops::CEIL)?,))
    }

    #[pyo3(signature = (ndigits=None))]
    fn __round__<'py>(slf: &Bound<'py, Self>, ndigits: Option<i32>) -> PyResult<Bound<'py, PyAny>> {
        to_host::rounded(slf, ndigits)
    }

    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_host::index(self, py)
    }

    /// An element as a Python number: the only one, the one at a position in the flattened array, or
    /// the one at an index along every axis. An active element stays active.
    ///
    /// Raises `ValueError` without an index when there is more than one element, and for as many indices as do not
    /// fit the axes, `IndexError` for one out of range.
    ///
    /// >>> import cotan as ct
    /// >>> ct.array([[1.0, 2.0]]).item(0, 1)
    /// 2.0
    #[pyo3(signature = (*index))]
    fn item<'py>(
        slf: &Bound<'py, Self>,
        index: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        to_host::element(slf, index)
    }

    /// The values as nested lists of Python numbers. Active values stay active.
    ///
    /// >>> import cotan as ct
    /// >>> ct.array([[1, 2], [3, 4]]).tolist()
    /// [[1, 2], [3, 4]]
    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_host::lists(slf)
    }

    #[pyo3(signature = (dtype=None, *, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        given_out(slf, dtype.as_ref(), copy)
    }

    /// A copy of the memory of a constant, as NumPy describes it to other libraries.
    ///
    /// Raises `AttributeError` for an active array.
    #[getter]
    fn __array_interface__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        memory::interface(slf)
    }

    /// # Safety
    ///
    /// The interpreter hands over a buffer to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut pyo3::ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        // SAFETY: says the caller.
        unsafe { memory::fill(&slf, view, flags) }
    }

    #[pyo3(signature = (ufunc, method, *inputs, **kwargs))]
    fn __array_ufunc__<'py>(
        slf: &Bound<'py, Self>,
        ufunc: &Bound<'py, PyAny>,
        method: &Bound<'py, PyString>,
        inputs: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        (registered()?.array_ufunc)(slf.py(), ufunc, method, inputs, kwargs)
    }

    fn __array_function__<'py>(
        slf: &Bound<'py, Self>,
        func: &Bound<'py, PyAny>,
        types: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        (registered()?.array_function)(slf.py(), func, types, args, kwargs)
    }

    /// The class of what NumPy would have handed out, so that `isinstance(x, np.ndarray)` holds in code
    /// that looks before it computes. `type(x)` is `Array`.
    #[getter]
    fn __class__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        match slf.get().scalar_kind {
            ScalarKind::Array => py.import("numpy")?.getattr("ndarray"),
            ScalarKind::NumpyScalar => slf.getattr("dtype")?.getattr("type"),
            ScalarKind::PythonNumber => {
                let name = match slf.get().cell().array.dtype().kind() {
                    Kind::Bool => "bool",
                    Kind::Integer => "int",
                    Kind::Float => "float",
                    Kind::Complex => "complex",
                };
                py.import("builtins")?.getattr(name)
            }
        }
    }

    /// Above NumPy's own arrays and those of most other libraries.
    #[classattr]
    fn __array_priority__() -> f64 {
        1000.0
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        repr::repr(self, py)
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        repr::str(self, py)
    }

    fn __format__(&self, py: Python<'_>, spec: &str) -> PyResult<String> {
        repr::format(self, py, spec)
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        crate::array::index::getitem(slf, key)
    }

    fn __setitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        crate::array::index::setitem(slf, key, value)
    }

    fn __delitem__(_slf: &Bound<'_, Self>, _key: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyValueError::new_err("cannot delete array elements"))
    }

    /// The transpose, a view.
    #[getter(T)]
    fn transposed<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let perm: Vec<usize> = (0..slf.get().ndim()).rev().collect();
        transpose_view(slf, &perm)
    }

    /// A read-only view, repeated to a shape.
    fn _broadcast<'py>(slf: &Bound<'py, Self>, shape: Vec<usize>) -> PyResult<Bound<'py, PyAny>> {
        // Refused shapes are refused before a view is made of them.
        slf.get().read()?.broadcast_to(&shape).or_raise()?;
        let op = ViewOp::Broadcast(shape.into());
        Ok(Bound::new(slf.py(), PyArray::view_of(slf, op)?)?.into_any())
    }

    /// A view of the elements at these positions in row-major order, so many apart in memory along every axis of it. Where
    /// `apart` is given, the view has those of the positions that are so many apart.
    #[pyo3(signature = (positions, shape, strides, writeable, apart = None))]
    fn _gathered<'py>(
        slf: &Bound<'py, Self>,
        positions: PyReadonlyArray1<'py, i64>,
        shape: Vec<usize>,
        strides: Vec<isize>,
        writeable: bool,
        apart: Option<Vec<isize>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let positions = (positions.as_slice())
            .map_err(|_| PyValueError::new_err("positions have gaps between them"))?;
        let apart = apart.as_deref();
        let gathered = Gathered::new(positions, &shape, &strides, writeable, apart)?;
        let op = ViewOp::Gather(Arc::new(gathered));
        Ok(Bound::new(slf.py(), PyArray::view_of(slf, op)?)?.into_any())
    }

    /// The real part; the array itself when it is real.
    #[getter]
    fn real<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        part(slf, true)
    }

    /// The imaginary part; zeros when the array is real.
    #[getter]
    fn imag<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        part(slf, false)
    }

    /// Writes the real part.
    #[setter]
    fn set_real(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        set_part(slf, value, true)
    }

    /// Writes the imaginary part of a complex array.
    #[setter]
    fn set_imag(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        set_part(slf, value, false)
    }

    /// A new array with the same values; of a scalar, a scalar.
    ///
    /// It stays active. Which axis runs fastest in memory, "C" or "F" in `order`, or "A" or "K" for that of the array,
    /// counts for constants only: their flags say so.
    ///
    /// >>> import cotan as ct
    /// >>> x = ct.array([1.0, 2.0])
    /// >>> y = x.copy()
    /// >>> y[0] = 5.0
    /// >>> x
    /// Array([1., 2.])
    #[pyo3(signature = (order="C"))]
    fn copy<'py>(slf: &Bound<'py, Self>, order: &str) -> PyResult<Bound<'py, PyAny>> {
        copied(slf, order)
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        copied(slf, "K")
    }

    fn __deepcopy__<'py>(
        slf: &Bound<'py, Self>,
        memo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = memo;
        copied(slf, "K")
    }

    fn __reduce_ex__<'py>(&self, py: Python<'py>, protocol: i32) -> PyResult<Bound<'py, PyAny>> {
        (registered()?.reduce)(self, py, protocol)
    }

    /// Gives the array another value. All of it is written, as by in-place operators, or some of it is as it was.
    #[pyo3(signature = (value, whole=false))]
    fn _assign(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>, whole: bool) -> PyResult<()> {
        crate::array::index::assign(slf, value, whole)
    }

    /// The array that it is a view of, in the end, along one axis, and the positions of its own elements there.
    fn _beneath<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        PyArray::beneath(slf)
    }

    /// Whether it shows windows that overlap and can be written to.
    #[getter]
    fn _overlaps(&self) -> bool {
        self.is_view() && self.overlaps()
    }

    /// The device that it lies on, or will when it has been computed.
    ///
    /// >>> import cotan as ct
    /// >>> ct.array([1.0]).device
    /// Device('cpu')
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Py<crate::array::device::PyDevice>> {
        Py::new(py, crate::array::device::device_of(self)?)
    }

    /// A copy of it on a device; the array itself where it lies there already.
    ///
    /// Raises `ValueError` for a text that names no device, `RuntimeError` when there is none or it does not have the dtype,
    /// `TypeError` for an array that depends on an argument which is recorded: what is recorded runs where its arguments lie.
    ///
    /// >>> import cotan as ct
    /// >>> ct.array([1.0]).to_device("cpu")
    /// Array([1.])
    #[pyo3(signature = (device: "str | Device", /, *, stream: "object" = None) -> "Array")]
    fn to_device<'py>(
        slf: &Bound<'py, Self>,
        device: &Bound<'py, PyAny>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some() {
            return Err(PyValueError::new_err(
                "to_device: devices of cotan have no streams",
            ));
        }
        crate::array::device::to_device(slf, device)
    }

    /// `(type, id)` of the device, as DLPack numbers them: the CPU.
    #[allow(clippy::unused_self)]
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    /// The values as a DLPack capsule, for other array libraries.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let given = [
            ("stream", stream),
            ("max_version", max_version),
            ("dl_device", dl_device),
        ];
        to_host::dlpack(self, py, &given, copy)
    }
}
