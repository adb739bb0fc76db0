//! How functions get into the module: each file names its own.

/// Defines `register`, which adds functions of a file to the module. Their types in the stub stand in their
/// signatures.
macro_rules! exports {
    ($($function:ident),* $(,)?) => {
        /// Adds the functions of this file to the module.
        pub fn register(module: &::pyo3::Bound<'_, ::pyo3::types::PyModule>) -> ::pyo3::PyResult<()> {
            use ::pyo3::types::PyModuleMethods;
            $( module.add_function(::pyo3::wrap_pyfunction!($function, module)?)?; )*
            Ok(())
        }
    };
}
pub(crate) use exports;
