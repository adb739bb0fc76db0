//! Machine code of straight-line code, by Cranelift.
//!
//! A function is given a table of addresses, inputs first. `writer` writes its instructions, in the order in which they
//! are run. Its memory is written first and made executable then, never both.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use cranelift_codegen::ir::{AbiParam, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};

use super::function::Writer;
use super::{Breakdown, ScalarCode};
use crate::aval::DType;

/// Bytes of stack that the compiler has.
const STACK: usize = 4 << 20;

/// Takes a table of addresses; gives the number of a [`Breakdown`], or zero.
type Function = unsafe extern "C" fn(*const *mut u8) -> u32;

/// A compiled function.
pub struct Code {
    function: Function,
    inputs: Vec<(DType, usize)>,
    outputs: Vec<(DType, usize)>,
    /// The numbers that it reads.
    _numbers: Box<[u128]>,
    /// Where the function lies.
    _memory: Arc<Memory>,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code")
            .field("inputs", &self.inputs.len())
            .field("outputs", &self.outputs.len())
            .finish_non_exhaustive()
    }
}

/// The memory of some functions, given back with the last of them.
struct Memory(Mutex<ManuallyDrop<JITModule>>);

impl Drop for Memory {
    fn drop(&mut self) {
        let module = self
            .0
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: nothing takes the module afterwards, and every function that lies in it has held this.
        unsafe { ManuallyDrop::take(module).free_memory() };
    }
}

impl Code {
    /// Compiles functions together; `None` where that is not possible: on a processor that the compiler does not know,
    /// or where no memory may be executable.
    pub fn compile(codes: &[ScalarCode]) -> Option<Vec<Arc<Code>>> {
        // The compiler needs more stack than the calling thread may have, and panics where it knows no way.
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().stack_size(STACK);
            let thread = builder
                .spawn_scoped(scope, || Code::compile_here(codes))
                .ok()?;
            thread.join().ok().flatten()
        })
    }

    fn compile_here(codes: &[ScalarCode]) -> Option<Vec<Arc<Code>>> {
        // A frame that is too large has to meet the guard page behind the stack, and not what lies beyond.
        let flags = [
            // The optimiser puts instructions into another order, and reads once what had better be read again.
            ("opt_level", "none"),
            ("enable_verifier", "false"),
            ("enable_probestack", "true"),
            ("probestack_strategy", "inline"),
        ];
        let mut module =
            JITModule::new(JITBuilder::with_flags(&flags, default_libcall_names()).ok()?);
        let mut ids = Vec::with_capacity(codes.len());
        let mut numbers = Vec::with_capacity(codes.len());
        let mut frontend = FunctionBuilderContext::new();
        let mut context = module.make_context();
        for (k, code) in codes.iter().enumerate() {
            let signature = &mut context.func.signature;
            signature.params.push(AbiParam::new(types::I64));
            signature.returns.push(AbiParam::new(types::I32));
            let name = format!("code{k}");
            let id = module
                .declare_function(&name, Linkage::Local, &context.func.signature)
                .ok()?;
            let builder = FunctionBuilder::new(&mut context.func, &mut frontend);
            numbers.push(Writer::new(builder, &code.merged()).write());
            let defined = module.define_function(id, &mut context);
            module.clear_context(&mut context);
            if defined.is_err() {
                // SAFETY: no function in it is referred to.
                unsafe { module.free_memory() };
                return None;
            }
            ids.push(id);
        }
        if module.finalize_definitions().is_err() {
            // SAFETY: as above.
            unsafe { module.free_memory() };
            return None;
        }
        let functions: Vec<*const u8> = ids
            .iter()
            .map(|&id| module.get_finalized_function(id))
            .collect();
        let memory = Arc::new(Memory(Mutex::new(ManuallyDrop::new(module))));
        let finished = codes.iter().zip(functions).zip(numbers);
        let finished = finished.map(|((code, function), numbers)| {
            Arc::new(Code {
                // SAFETY: it was compiled with this signature, and lies there as long as `_memory`.
                function: unsafe { std::mem::transmute::<*const u8, Function>(function) },
                inputs: code.inputs.clone(),
                outputs: code.outputs.clone(),
                _numbers: numbers,
                _memory: Arc::clone(&memory),
            })
        });
        Some(finished.collect())
    }

    pub(super) fn inputs(&self) -> &[(DType, usize)] {
        &self.inputs
    }

    pub(super) fn outputs(&self) -> &[(DType, usize)] {
        &self.outputs
    }

    /// # Safety
    /// The table has an address for every input and output, of contiguous, aligned elements of its dtype and number.
    /// Outputs overlap nothing else, and nobody uses them meanwhile.
    pub(super) unsafe fn run(&self, table: *const *mut u8) -> Option<Breakdown> {
        // SAFETY: the caller's promise.
        let number = unsafe { (self.function)(table) };
        let all = [Breakdown::Singular, Breakdown::NotPositive];
        all.into_iter().find(|&why| why as u32 == number)
    }
}
