//! Machine code of straight-line code, by Cranelift.
//!
//! A function is given a table of addresses, inputs first. It reads each element that it needs once, computes in
//! registers, and writes all results at the end. Its memory is written first and made executable then, never both.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlags, SigRef, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};

use super::operations::{cast, inline, number, register};
use super::{Breakdown, Op, ScalarCode};
use crate::aval::DType;
use crate::kernels::lane::{Lane, LaneOp, cast_lane, lane, pair};
use crate::util::FastMap;

/// Bytes of stack that the compiler has.
const STACK: usize = 4 << 20;

/// Takes a table of addresses; gives the number of a [`Breakdown`], or zero.
type Function = unsafe extern "C" fn(*const *mut u8) -> u32;

/// A compiled function.
pub struct Code {
    function: Function,
    inputs: Vec<(DType, usize)>,
    outputs: Vec<(DType, usize)>,
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

/// Calls a lane.
///
/// # Safety
/// As for [`Lane`]; `lane` is one.
unsafe extern "C" fn call_lane(
    lane: usize,
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    c: *const u8,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { std::mem::transmute::<usize, Lane>(lane)(out, a, b, c, n) }
}

/// The processor's multiplication and addition in one, where the kernels of products use it.
fn has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    cfg!(target_arch = "aarch64")
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
            ("opt_level", "speed"),
            ("enable_verifier", "false"),
            ("enable_probestack", "true"),
            ("probestack_strategy", "inline"),
        ];
        let mut module =
            JITModule::new(JITBuilder::with_flags(&flags, default_libcall_names()).ok()?);
        let mut ids = Vec::with_capacity(codes.len());
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
            Writer::new(builder, code).write();
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
        let finished = codes.iter().zip(functions).map(|(code, function)| {
            Arc::new(Code {
                // SAFETY: it was compiled with this signature, and lies there as long as `_memory`.
                function: unsafe { std::mem::transmute::<*const u8, Function>(function) },
                inputs: code.inputs.clone(),
                outputs: code.outputs.clone(),
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

/// For each line that is the sine or the cosine of an angle whose other one is needed too, that one.
fn pairs(code: &ScalarCode, needed: &[bool]) -> FastMap<u32, u32> {
    let mut met: FastMap<(u32, LaneOp), u32> = FastMap::default();
    let mut pairs = FastMap::default();
    for (k, &(op, dtype)) in code.lines.iter().enumerate().filter(|&(k, _)| needed[k]) {
        let Op::Lane { op, args } = op else { continue };
        let other = match op {
            LaneOp::Sin => LaneOp::Cos,
            LaneOp::Cos => LaneOp::Sin,
            _ => continue,
        };
        let k = k as u32;
        match met.get(&(args[0], other)) {
            Some(&first) if pair(other, op, dtype).is_some() && !pairs.contains_key(&first) => {
                pairs.insert(first, k);
                pairs.insert(k, first);
            }
            _ => {
                met.insert((args[0], op), k);
            }
        }
    }
    pairs
}

/// A function while it is written.
struct Writer<'a> {
    b: FunctionBuilder<'a>,
    code: &'a ScalarCode,
    table: Value,
    /// The addresses of inputs that were read.
    inputs: Vec<Option<Value>>,
    values: Vec<Option<Value>>,
    /// How lanes are called.
    signature: SigRef,
    /// For some sines and cosines the other one of the same angle.
    pairs: FastMap<u32, u32>,
    /// Operands and results of lanes.
    room: Option<[StackSlot; 4]>,
    fma: bool,
}

impl<'a> Writer<'a> {
    fn new(mut b: FunctionBuilder<'a>, code: &'a ScalarCode) -> Writer<'a> {
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let table = b.block_params(block)[0];
        let mut signature = b.func.signature.clone();
        signature.params = vec![AbiParam::new(types::I64); 6];
        signature.returns.clear();
        let signature = b.import_signature(signature);
        Writer {
            table,
            inputs: vec![None; code.inputs.len()],
            values: vec![None; code.lines.len()],
            signature,
            pairs: FastMap::default(),
            room: None,
            fma: has_fma(),
            b,
            code,
        }
    }

    fn write(mut self) {
        let needed = self.code.needed();
        self.pairs = pairs(self.code, &needed);
        for (k, &is_needed) in needed.iter().enumerate() {
            if is_needed {
                self.line(k);
            }
        }
        let mut at = None;
        for &(output, index, line) in &self.code.stores {
            let address = match at {
                Some((same, address)) if same == output => address,
                _ => self.address(self.code.inputs.len() + output as usize),
            };
            at = Some((output, address));
            let size = self.code.outputs[output as usize].0.size();
            let value = self.value(line);
            let offset = (index as usize * size) as i32;
            self.b
                .ins()
                .store(MemFlags::trusted(), value, address, offset);
        }
        let mut number = self.b.ins().iconst(types::I32, 0);
        for &(mask, why) in self.code.breakdowns.iter().rev() {
            let mask = self.value(mask);
            let own = self.b.ins().iconst(types::I32, why as i64);
            number = self.b.ins().select(mask, own, number);
        }
        self.b.ins().return_(&[number]);
        self.b.finalize();
    }

    /// An entry of the table.
    fn address(&mut self, entry: usize) -> Value {
        self.b.ins().load(
            types::I64,
            MemFlags::trusted(),
            self.table,
            (entry * 8) as i32,
        )
    }

    fn value(&self, line: u32) -> Value {
        self.values[line as usize].expect("lines are written in their order")
    }

    fn line(&mut self, k: usize) {
        if self.values[k].is_some() {
            // The second one of a pair.
            return;
        }
        let (op, dtype) = self.code.lines[k];
        let value = match op {
            Op::Number(bits) => number(&mut self.b, dtype, bits),
            Op::Element { input, index } => {
                let address = match self.inputs[input as usize] {
                    Some(address) => address,
                    None => self.address(input as usize),
                };
                self.inputs[input as usize] = Some(address);
                let offset = (index as usize * dtype.size()) as i32;
                let flags = MemFlags::trusted().with_readonly();
                self.b.ins().load(register(dtype), flags, address, offset)
            }
            Op::Lane { op, args } => {
                // The dtype of the operands: the first one of `Where` is a mask.
                let typed = args[usize::from(op == LaneOp::Where)];
                let dtype = self.code.lines[typed as usize].1;
                let mut x = [self.value(args[0]); 3];
                for (x, &arg) in x.iter_mut().zip(&args[..op.arity()]) {
                    *x = self.values[arg as usize].expect("lines are written in their order");
                }
                let partner = self.pairs.get(&(k as u32)).copied();
                match (inline(&mut self.b, op, dtype, x), partner) {
                    (Some(value), _) => value,
                    (None, Some(partner)) => self.pair((op, dtype), partner, x[0]),
                    (None, None) => self.call(op, dtype, k, &args[..op.arity()], 1),
                }
            }
            Op::MultiplyAdd(args) => {
                let [x, y, z] = args.map(|arg| self.value(arg));
                if self.fma {
                    self.b.ins().fma(x, y, z)
                } else {
                    let product = self.b.ins().fmul(x, y);
                    self.b.ins().fadd(product, z)
                }
            }
            Op::Lanes { op, first, count } => {
                let (first, count) = (first as usize, count as usize);
                let code = self.code;
                let operands = &code.operands[first..first + op.arity() * count];
                let typed = operands[if op == LaneOp::Where { count } else { 0 }];
                self.call(op, code.lines[typed as usize].1, k, operands, count)
            }
            // Filled in by the call.
            Op::Result { .. } => return,
            Op::Cast(arg) => {
                let from = self.code.lines[arg as usize].1;
                let x = self.value(arg);
                if let Some(value) = cast(&mut self.b, x, from, dtype) {
                    value
                } else {
                    let lane = cast_lane(from, dtype) as usize;
                    self.call_lane(lane, &[vec![x]], dtype, 1)[0]
                }
            }
        };
        self.values[k] = Some(value);
    }

    /// The call of a lane on some elements, for line `k` and its results.
    fn call(
        &mut self,
        op: LaneOp,
        dtype: DType,
        k: usize,
        operands: &[u32],
        count: usize,
    ) -> Value {
        let function = lane(op, dtype).expect("code has operations that there are") as usize;
        let operands: Vec<Vec<Value>> = operands
            .chunks(count)
            .map(|list| list.iter().map(|&x| self.value(x)).collect())
            .collect();
        let results = self.call_lane(function, &operands, self.code.lines[k].1, count);
        for (i, &result) in results.iter().enumerate() {
            if matches!(self.code.lines.get(k + 1 + i), Some((Op::Result { .. }, _))) {
                self.values[k + 1 + i] = Some(result);
            }
        }
        results[0]
    }

    /// An operation together with its partner, whose line it fills in.
    fn pair(&mut self, (op, dtype): (LaneOp, DType), partner: u32, x: Value) -> Value {
        let (other, result) = self.code.lines[partner as usize];
        let lane = match other {
            Op::Lane { op: other, .. } => pair(op, other, dtype),
            _ => None,
        };
        let lane = lane.expect("partners are pairs") as usize;
        let slots = self.room();
        self.b.ins().stack_store(x, slots[1], 0);
        let mut args = vec![self.b.ins().iconst(types::I64, lane as i64)];
        for &slot in &slots[..3] {
            args.push(self.b.ins().stack_addr(types::I64, slot, 0));
        }
        args.push(self.b.ins().iconst(types::I64, 0));
        args.push(self.b.ins().iconst(types::I64, 1));
        self.call_indirectly(&args);
        let [first, _, second, _] = slots;
        let ty = register(result);
        self.values[partner as usize] = Some(self.b.ins().stack_load(ty, second, 0));
        self.b.ins().stack_load(ty, first, 0)
    }

    /// Calls what calls lanes.
    fn call_indirectly(&mut self, args: &[Value]) {
        let callee = self
            .b
            .ins()
            .iconst(types::I64, call_lane as *const () as i64);
        self.b.ins().call_indirect(self.signature, callee, args);
    }

    fn call_lane(
        &mut self,
        lane: usize,
        operands: &[Vec<Value>],
        result: DType,
        count: usize,
    ) -> Vec<Value> {
        let slots = self.room();
        for (&slot, list) in slots[1..].iter().zip(operands) {
            let size = self.b.func.dfg.value_type(list[0]).bytes() as usize;
            for (i, &x) in list.iter().enumerate() {
                self.b.ins().stack_store(x, slot, (i * size) as i32);
            }
        }
        let mut args = vec![self.b.ins().iconst(types::I64, lane as i64)];
        for (i, &slot) in slots.iter().enumerate() {
            args.push(if i <= operands.len() {
                self.b.ins().stack_addr(types::I64, slot, 0)
            } else {
                self.b.ins().iconst(types::I64, 0)
            });
        }
        args.push(self.b.ins().iconst(types::I64, count as i64));
        self.call_indirectly(&args);
        let size = result.size();
        (0..count)
            .map(|i| {
                self.b
                    .ins()
                    .stack_load(register(result), slots[0], (i * size) as i32)
            })
            .collect()
    }

    /// Room on the stack for the longest call: results, then operands.
    fn room(&mut self) -> [StackSlot; 4] {
        if let Some(slots) = self.room {
            return slots;
        }
        let longest = self.code.lines.iter().map(|(op, _)| match op {
            Op::Lanes { count, .. } => *count,
            _ => 1,
        });
        let bytes = 8 * longest.max().unwrap_or(1);
        let slots = [(); 4].map(|()| {
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
            self.b.create_sized_stack_slot(data)
        });
        self.room = Some(slots);
        slots
    }
}
