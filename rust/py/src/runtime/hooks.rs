//! The functions and classes of the Python package that the bindings call.
//!
//! The bindings name no module of Python: `cotan._src.hooks` hands all of these over by name as `cotan` is imported. A
//! hook that is missing, or one that nobody knows, is an `ImportError` there.

use crate::runtime::exports::exports;
use crate::runtime::text;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

exports!(set_hooks);

/// An object of the Python package, which is set once.
pub struct Hook {
    name: &'static str,
    object: PyOnceLock<Py<PyAny>>,
}

impl Hook {
    const fn new(name: &'static str) -> Hook {
        Hook {
            name,
            object: PyOnceLock::new(),
        }
    }

    /// The object.
    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        match self.object.get(py) {
            Some(object) => Ok(object.bind(py)),
            None => Err(self.missing()),
        }
    }

    #[cold]
    fn missing(&self) -> PyErr {
        PyImportError::new_err(format!("cotan: the hook {} has not been set", self.name))
    }
}

macro_rules! hooks {
    ($($(#[doc = $doc:literal])+ $hook:ident = $name:literal;)+) => {
        $($(#[doc = $doc])+ pub static $hook: Hook = Hook::new($name);)+

        static HOOKS: &[&Hook] = &[$(&$hook),+];
    };
}

hooks! {
    // Errors and warnings.
    /// The exception for a NaN or an infinity, from what is known of its origin.
    NONFINITE_ERROR = "nonfinite_error";
    /// Tells such an exception the paths of the arguments.
    NAME_NONFINITE_LEAVES = "name_nonfinite_leaves";
    /// The names of libraries whose files have no line of the user's.
    WITHOUT_USER_CODE = "without_user_code";
    /// What an error that refuses to drop a gradient adds for the line that runs.
    ERROR_HINT = "error_hint";
    /// Raises the exception of a signal handler, if there is one behind an exception.
    RAISE_INTERRUPT = "raise_interrupt";
    /// Adds a note to an exception that left a recorded function.
    EXPLAIN_ERROR = "explain_error";
    /// A function of what a callable keeps and of its arguments, and what it keeps.
    WITH_STATE = "with_state";
    /// What is said of an argument that is asked for and can have no gradient, if it is refused.
    ARGUMENT_REFUSAL = "argument_refusal";
    /// Whether the user's code, not a library, makes the call that runs.
    USER_CODE_ASKS = "user_code_asks";
    /// Warns at the line of the user's code.
    WARN = "warn";

    // Reading the values of arrays.
    /// Whether a number is read to become a text.
    IS_FORMATTING = "is_formatting";
    /// Whether a frame calls the `shuffle` of a generator.
    IS_SHUFFLING = "is_shuffling";
    /// Whether what is computed from a value that is read has no derivative anyway.
    VALUE_IS_DISCARDED = "value_is_discarded";
    /// Whether a value that is read may index a plain ndarray.
    MAY_INDEX_NDARRAY = "may_index_ndarray";
    /// The state that the functions among arguments can change, if there are any.
    STATE_OF_CALLBACKS = "state_of_callbacks";
    /// Calls an override that reads values so that a replay can repeat the call; `...` where it could not.
    REPEATED_CALL = "repeated_call";
    /// Whether nobody will read the text that is made of a value: None, or a function that makes sure of that at the end.
    CHECK_OF_TEXT = "check_of_text";
    /// The states of the generators of random numbers that modules share.
    GLOBAL_RANDOM_STATES = "global_random_states";
    /// A function that takes a dictionary of what is given by keyword as its last argument.
    BY_KEYWORD = "by_keyword";
    /// Makes the report of a prepared function.
    PREPARED_REPORT = "prepared_report";
    /// A short text for a value that is guarded.
    DESCRIBED = "described";
    /// Warns that a function is recorded again and again.
    WARN_RECORDING = "warn_recording";
    /// The line of the prepared function that runs, as the head of an error.
    PLACE = "place";
    /// An ndarray of objects with the elements of an active array.
    AS_OBJECTS = "as_objects";
    /// `x.item(*index)` of an active array.
    ITEM = "item";
    /// `x.tolist()` of an active array.
    TOLIST = "tolist";
    /// The iterator over an array.
    ELEMENTS = "elements";

    // Operands and indexing.
    /// An array of a nested sequence.
    ARRAY = "array";
    /// The class of arrays of other libraries over ours.
    OVER_ARRAY_CLASS = "over_array_class";
    /// The class that stands for `np.matrix`.
    MATRIX_CLASS = "matrix_class";
    /// The class that stands for `ndarray.flat`.
    FLAT_CLASS = "flat_class";
    /// `np.sign` of an active complex array.
    SIGN_OF_COMPLEX = "sign_of_complex";
    /// The matrix product with a table that has NaN in it; None where that makes no difference.
    MATMUL_AROUND_NAN = "matmul_around_nan";
    /// `x[key]` for keys with index arrays and masks.
    GETITEM = "getitem";
    /// `x[key] = value` for such keys.
    SETITEM = "setitem";
    /// A new array with `x[key]` replaced, or added to, for such keys.
    UPDATED = "updated";
    /// Of positions that occur several times, the one that NumPy writes last.
    WRITTEN_LAST = "written_last";
    /// Whether a subclass of ndarray computes as ndarray does.
    IS_PLAIN_SUBCLASS = "is_plain_subclass";
    /// The error for an array of a subclass that does not.
    SUBCLASS_REFUSAL = "subclass_refusal";

    // Structures.
    /// How instances of a class are taken apart.
    CLASS_LAYOUT = "class_layout";
    /// Copies what an object holds besides its fields.
    COPY_HIDDEN = "copy_hidden";
    /// The class of cotangents of objects.
    TANGENT_CLASS = "tangent_class";
    /// The mapping from captured arrays to their cotangents.
    GRADIENTS_CLASS = "gradients_class";
    /// A cotangent of zero for a field of an object.
    ZERO = "zero";
    /// `ct.const`, by which a constant is pickled.
    CONST = "const";
    /// How a decorated function is pickled, if it can be found by its name.
    PICKLE_BY_NAME = "pickle_by_name";
    /// Names of the arguments of a call.
    ARGUMENT_NAMES = "argument_names";
    /// The same from a code object.
    CODE_NAMES = "code_names";
    /// Refuses to differentiate a function without its arguments.
    EXPECT_ARGUMENTS = "expect_arguments";
    /// The arrays that `wrt` lists for a function without arguments.
    LISTED_ARRAYS = "listed_arrays";
    /// Shape and dtype of a leaf, for predicates.
    LEAF_INFO_CLASS = "leaf_info_class";
    /// Which leaves `wrt` asks for.
    SELECT = "select";
    /// An object in place of one whose class is not known here.
    EMPTY_OBJECT = "empty_object";
    /// The structure of a pullback as JSON.
    OUTLINE_TO_JSON = "outline_to_json";
    /// The structure of a pullback from JSON.
    OUTLINE_FROM_JSON = "outline_from_json";

    // Interposition.
    /// Installs the overrides of modules that have been imported; whether all of them were there.
    INSTALL = "install";
    /// An attribute of a module, by which what stands for it is pickled.
    MODULE_ATTRIBUTE = "module_attribute";
    /// The package of the code of a frame: `"cotan"`, a library's, or an empty text for user code.
    CALLING_PACKAGE = "calling_package";
    /// Whether user code calls a function itself, and whether it always does at that place.
    IS_CALL_OF = "is_call_of";
    /// Keeps a copy of a Python function, and lets its code begin with a call of a hook, if there is one.
    ADD_PROLOGUE = "add_prologue";
    /// `__array_ufunc__`, where the call is not a primitive.
    ARRAY_UFUNC = "array_ufunc";
    /// `__array_function__`.
    ARRAY_FUNCTION = "array_function";
    /// The table of functions that `__array_function__` computes.
    ARRAY_FUNCTIONS = "array_functions";
    /// A function of NumPy whose arguments include subclasses of ndarray.
    FUNCTION_OF_SUBCLASSES = "function_of_subclasses";

    // Derivative rules.
    /// Whether a pullback takes the argument `wanted`.
    TAKES_WANTED = "takes_wanted";
    /// A function that applies the pullback of another one.
    PULLBACK_OF = "pullback_of";

    // Solvers.
    /// What the code of a function reads by name; None where it may do more than compute.
    LOOK_UP_NAMES = "look_up_names";
    /// What a program has put on a part of a library, under some names; None for what is no such part, False where it
    /// may do anything.
    LIBRARY_PART = "library_part";

    // Prepared functions and programs.
    /// What a function reads besides its arguments.
    GUARDS = "guards";
    /// A recording that nobody has asked for, with the guards of the function, in a context that can put back what it changes;
    /// None for a function that may do more than compute.
    ATTEMPT = "attempt";
    /// Whether code may tell a number from an array of the same value.
    TELLS_NUMBERS_APART = "tells_numbers_apart";
    /// Which of the functions that were looked at are called back.
    FUNCTIONS_IN = "functions_in";
    /// Results beside the buffers that they are written to.
    OUTPUT_PAIRS = "output_pairs";
    /// A result, copied to the buffers of `out=`.
    COPIED = "copied";
    /// Stands for a result while buffers are compared with the structure of results.
    RESULT_CLASS = "result_class";
    /// A function and its arguments without keyword arguments.
    BY_POSITION = "by_position";
    /// The report of what a pullback holds.
    REPORT = "report";
    /// Writes a program to an ONNX file.
    EXPORT_ONNX = "export_onnx";
}

/// Sets all hooks, each by its name.
#[pyfunction]
#[pyo3(signature = (**objects: "Any") -> "None")]
pub fn set_hooks(py: Python<'_>, objects: Option<Bound<'_, PyDict>>) -> PyResult<()> {
    let objects = objects.unwrap_or_else(|| PyDict::new(py));
    for hook in HOOKS {
        let Some(object) = objects.get_item(hook.name)? else {
            return Err(hook.missing());
        };
        objects.del_item(hook.name)?;
        // Importing the package anew gives other objects; the first ones stay.
        let _ = hook.object.set(py, object.unbind());
    }
    if let Some(name) = objects.keys().iter().next() {
        return Err(PyImportError::new_err(format!(
            "cotan: there is no hook {}",
            text::text(&name)?
        )));
    }
    Ok(())
}
