//! Tests of matrix units, mostly without any: the same texts with arrays of a thread in place of matrices are executed on
//! whatever device there is, and the texts for units are validated and translated.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use cotan::aval::{Aval, DType, WindowDim};
use cotan::kernels::Value;
use cotan::prim::{Params, Var};
use cotan::program::Builder;
use cotan::sched::{Backend, Device, register_backend};
use cotan::testing::{run, single};
use cotan::{Program, Result, ops};

use crate::Gpu;
use crate::context::{Context, ready};
use crate::types::Type;
use crate::units::{Form, Trust, Unit, Units, reported, tile};
use crate::units_check::try_out;

thread_local! {
    /// The shaders that this thread would have compiled, while it only notes them.
    static NOTED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Whether shaders are noted, and not compiled.
pub fn is_noting() -> bool {
    NOTED.with_borrow(Option::is_some)
}

/// A shader, or another one in place of it where it is only noted.
pub fn noted(source: String) -> String {
    NOTED.with_borrow_mut(|noted| match noted {
        None => source,
        Some(noted) => {
            noted.push(source);
            "@group(0) @binding(0) var<storage, read> P: array<u32>;\n\
             @compute @workgroup_size(1) fn main() { let x = P[0]; }\n"
                .to_owned()
        }
    })
}

impl Form {
    /// How many subgroups a workgroup has.
    pub fn subgroups(self) -> u32 {
        match self {
            Form::Plain(subgroups) => subgroups,
            _ => 4,
        }
    }

    /// Whether a shader that has so many statements for a term is compiled in seconds.
    pub fn fits(self, statements: usize) -> bool {
        self == Form::Units || statements <= 64
    }
}

/// What stands for units where there are none: a subgroup has a thread for each row of a matrix. Factors stay in shared
/// memory, and a thread has its row of the sums.
pub fn frame(unit: Unit) -> (String, &'static str, String) {
    let size = unit.size;
    let all = |text: &dyn Fn(usize) -> String| (0..size).map(text).collect::<String>();
    let right = if unit.form == Form::Turned {
        |j: usize| format!("b.at + {j}u * b.stride + k")
    } else {
        |j: usize| format!("b.at + k * b.stride + {j}u")
    };
    let (factor, sum) = match unit.form {
        Form::Flawed(factor, sum) => (factor, sum),
        _ => ("$", "$"),
    };
    let factor = |text: &str| factor.replace('$', text);
    let sum = |text: &str| sum.replace('$', text);
    let x = factor("f32(left[a.at + own * a.stride + k])");
    let term = |j: usize| {
        let y = factor(&format!("f32(right[{}])", right(j)));
        let added = sum(&format!("(m.s{j} + x * {y})"));
        format!("    m.s{j} = {added};\n")
    };
    let mut functions = format!(
        "struct Factor {{ at: u32, stride: u32 }}\nstruct Sums {{ {} }}\nvar<private> own: u32;\n\
         fn load_left(at: u32, stride: u32) -> Factor {{ return Factor(at, stride); }}\n\
         fn load_right(at: u32, stride: u32) -> Factor {{ return Factor(at, stride); }}\n\
         fn load_results(at: u32, stride: u32) -> Sums {{\n  let i = at + own * stride;\n  var m: Sums;\n{}  return m;\n}}\n\
         fn store(m: Sums, at: u32, stride: u32) {{\n  let i = at + own * stride;\n{}}}\n\
         fn multiply_add(a: Factor, b: Factor, c: Sums) -> Sums {{\n  var m = c;\n  \
         for (var k = 0u; k < {size}u; k = k + 1u) {{\n    let x = {x};\n{}  }}\n  return m;\n}}\n",
        all(&|j| format!("s{j}: f32, ")),
        all(&|j| format!("  m.s{j} = results[i + {j}u];\n")),
        all(&|j| format!("  results[i + {j}u] = m.s{j};\n")),
        all(&term),
    );
    if unit.form == Form::Broken {
        functions += "no function\n";
    }
    let first = format!(
        "  let subgroup = l / {size}u; let subgroups = {}u; let lane = l % {size}u; let lanes = {size}u;\n  own = lane;\n",
        unit.form.subgroups(),
    );
    (functions, "", first)
}

fn adapter() -> Option<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapters = ready(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
    let first = adapters.into_iter().next();
    if first.is_none() {
        eprintln!("no GPU: nothing is computed");
    }
    first
}

/// The type of factors, whether or not a device has it.
fn kind(unit: Unit) -> Type {
    match unit.factors {
        "f16" => Type {
            dtype: DType::F16,
            stored: "f16",
            name: "f32",
            size: 2,
        },
        _ => Type {
            dtype: DType::F32,
            stored: "f32",
            name: "f32",
            size: 4,
        },
    }
}

fn unit(size: usize, factors: &'static str, form: Form) -> Unit {
    Unit {
        size,
        factors,
        form,
    }
}

/// What stands for units here, as far as the device has the types.
fn stands_in(adapter: &wgpu::Adapter) -> Vec<Unit> {
    let mut all = vec![
        unit(8, "f32", Form::Plain(4)),
        unit(16, "f16", Form::Plain(2)),
        unit(8, "f16", Form::Plain(8)),
        unit(16, "f32", Form::Plain(1)),
    ];
    all.retain(|unit| Type::of(kind(*unit).dtype, adapter.features()).is_some());
    all
}

/// The units that this device has.
fn own(adapter: &wgpu::Adapter) -> Vec<Unit> {
    let properties = adapter.cooperative_matrix_properties();
    let all = reported(&properties, adapter.features());
    if all.is_empty() {
        eprintln!("no matrix units: none is tried out");
    }
    all
}

fn opened(adapter: &wgpu::Adapter, unit: Unit) -> Arc<Context> {
    let units = Arc::new(Units::new(vec![unit]));
    Context::open(1, "gpu:0", adapter, units).unwrap()
}

fn try_all_out(adapter: &wgpu::Adapter, units: Vec<Unit>) {
    for unit in units {
        let context = opened(adapter, unit);
        assert_eq!(context.units.description(), "");
        try_out(&context, kind(unit)).unwrap();
        let (_, trust) = context.units.known(kind(unit)).unwrap();
        assert_eq!(trust, Trust::Right, "{unit:?}");
        eprintln!("{unit:?}{}", context.units.description());
    }
}

#[test]
fn units_are_tried_out() {
    let Some(adapter) = adapter() else { return };
    try_all_out(&adapter, stands_in(&adapter));
}

#[test]
fn own_units_are_tried_out() {
    let Some(adapter) = adapter() else { return };
    try_all_out(&adapter, own(&adapter));
}

#[test]
fn wrong_units_are_left_alone() {
    let Some(adapter) = adapter() else { return };
    for (form, why) in [
        (Form::Turned, " elements of a product were wrong"),
        (Form::Broken, "gpu:0: "),
    ] {
        let unit = unit(8, "f32", form);
        let context = opened(&adapter, unit);
        try_out(&context, kind(unit)).unwrap();
        let (_, trust) = context.units.known(kind(unit)).unwrap();
        let text = context.units.description();
        assert!(matches!(trust, Trust::Wrong(_)), "{form:?}");
        let says = text.contains("matrix units for float32 not used: ") && text.contains(why);
        assert!(says && !text.contains('\n'), "{text}");
        assert!(tile(&context, [512; 4], kind(unit)).is_none());
        // What they are not used for is computed all the same.
        assert!(context.check().is_ok());
    }
}

#[test]
fn units_that_lose_something_are_noticed() {
    let Some(adapter) = adapter() else { return };
    let tf32 = "bitcast<f32>(bitcast<u32>($) & 0xffffe000u)";
    // Newer compilers of Mesa leave `f32(f16(x))` out.
    let half = "unpack2x16float(pack2x16float(vec2<f32>($, 0.0))).x";
    let without_subnormals = "select(0.0, $, abs($) >= 6.103515625e-5)";
    for (factors, form) in [
        ("f32", Form::Flawed(tf32, "$")),
        ("f32", Form::Flawed("$", tf32)),
        ("f16", Form::Flawed(without_subnormals, "$")),
        ("f16", Form::Flawed("$", half)),
    ] {
        let unit = unit(8, factors, form);
        if Type::of(kind(unit).dtype, adapter.features()).is_none() {
            continue;
        }
        let context = opened(&adapter, unit);
        try_out(&context, kind(unit)).unwrap();
        let text = context.units.description();
        assert!(
            text.ends_with(" elements of a product were wrong"),
            "{form:?}{text}"
        );
    }
}

#[test]
fn a_device_that_was_lost_meanwhile_has_no_units() {
    let Some(adapter) = adapter() else { return };
    let unit = unit(8, "f32", Form::Plain(4));
    let context = opened(&adapter, unit);
    context.lose();
    assert!(try_out(&context, kind(unit)).is_err());
    let again = Context::open(1, "gpu:0", &adapter, Arc::clone(&context.units)).unwrap();
    try_out(&again, kind(unit)).unwrap();
    assert_eq!(again.units.known(kind(unit)).unwrap().1, Trust::Trying);
    assert!(tile(&again, [512; 4], kind(unit)).is_none());
    assert!(again.units.description().contains("was lost"));
}

/// A GPU with a unit that is trusted, as a device of its own.
struct Trusted(Arc<Gpu>);

impl Backend for Trusted {
    fn kind(&self) -> &'static str {
        "trusted"
    }

    fn devices(&self) -> Result<Vec<Arc<dyn Device>>> {
        Ok(vec![Arc::<Gpu>::clone(&self.0)])
    }
}

fn trusted(adapter: &wgpu::Adapter, unit: Unit) -> Arc<Gpu> {
    let units = Units::new(vec![unit]);
    units.set_trust(kind(unit), Trust::Right);
    let gpu = Arc::new(Gpu {
        id: 90,
        name: "trusted:0".to_owned(),
        adapter: adapter.clone(),
        units: Arc::new(units),
        open: Mutex::default(),
        limit: Mutex::default(),
    });
    register_backend(Arc::new(Trusted(Arc::clone(&gpu))));
    gpu
}

/// Small integers of a dtype.
fn whole(dtype: DType, shape: &[usize], seed: usize) -> Value {
    let count = shape.iter().product();
    let numbers: Vec<f32> = (0..count)
        .map(|i: usize| ((i * i + 7919 * i + seed) % 7) as f32 - 3.0)
        .collect();
    let value = Value::from_slice(shape, &numbers).unwrap();
    let params = Params::DType(dtype);
    let cast = single(ops::CAST, &params, &[value.aval().clone()]).unwrap();
    run(&cast, &[value]).unwrap().remove(0)
}

/// A product, plain or with a group behind it, of factors that lie in one order or the other.
fn product(
    dtype: DType,
    [batches, m, k, n]: [usize; 4],
    turned: [bool; 2],
    has_group: bool,
) -> (Program, Vec<Value>) {
    let order = |is_turned: bool, [rows, columns]: [usize; 2]| {
        if is_turned {
            [batches, columns, rows]
        } else {
            [batches, rows, columns]
        }
    };
    let mut shapes = vec![order(turned[0], [m, k]), order(turned[1], [k, n])];
    if has_group {
        shapes.extend([[1, 1, n], [1, m, 1], [1, 1, n]]);
    }
    let values: Vec<Value> = (shapes.iter().enumerate())
        .map(|(seed, shape)| whole(dtype, shape, seed))
        .collect();
    let builder = Builder::new();
    let inputs: Vec<Var> = (values.iter())
        .map(|value| builder.input("", value.aval()))
        .collect();
    let push = |prim, params, args: &[Var]| builder.push(prim, params, args).unwrap();
    let factor = |number: usize| {
        let turn = Params::Axes([0, 2, 1].into_iter().collect());
        if turned[number] {
            push(ops::TRANSPOSE, turn, &[inputs[number]])
        } else {
            inputs[number]
        }
    };
    let (a, b) = (factor(0), factor(1));
    let mut out = push(ops::MATMUL, Params::None, &[a, b]);
    for (x, prim) in inputs[2..].iter().zip([ops::ADD, ops::MAXIMUM, ops::MUL]) {
        let whole = Params::Shape([batches, m, n].into_iter().collect());
        let x = push(ops::BROADCAST, whole, &[*x]);
        out = push(prim, Params::None, &[out, x]);
    }
    (builder.finish(vec![out]).unwrap(), values)
}

fn convolution(dtype: DType) -> (Program, Vec<Value>) {
    let dim = WindowDim {
        size: 9,
        len: 3,
        pad: 1,
        stride: 1,
        dilation: 1,
        expansion: 1,
    };
    let params = Params::Windows([dim, dim].into_iter().collect());
    let values = vec![
        whole(dtype, &[2, 1, 3, 9, 9], 0),
        whole(dtype, &[1, 20, 3, 3, 3], 1),
    ];
    let avals: Vec<Aval> = values.iter().map(|v| v.aval().clone()).collect();
    (single(ops::CONV, &params, &avals).unwrap(), values)
}

/// Programs whose products have units: edges, orders, batches, sums in parts, groups, a convolution.
fn programs(dtype: DType) -> Vec<(Program, Vec<Value>)> {
    let mut all = Vec::new();
    if dtype == DType::F32 {
        all.push(convolution(dtype));
    }
    for (shape, turned) in [
        ([1, 17, 16, 17], [false, false]),
        ([1, 33, 40, 65], [true, false]),
        ([3, 40, 20, 33], [false, true]),
        ([1, 20, 520, 24], [true, true]),
    ] {
        for has_group in [false, true] {
            all.push(product(dtype, shape, turned, has_group));
        }
    }
    all
}

fn numbers(value: &Value) -> Vec<f64> {
    value.bring_here().unwrap();
    let size = value.aval().size();
    (0..size)
        .map(|i| value.element(i).item().unwrap().re)
        .collect()
}

/// Devices of one name cannot be there twice at once.
static ONE: Mutex<()> = Mutex::new(());

fn run_all(adapter: &wgpu::Adapter, units: Vec<Unit>) {
    let _one = ONE.lock();
    for unit in units {
        let gpu = trusted(adapter, unit);
        let context = gpu.context().unwrap();
        assert!(tile(&context, [17, 17, 16, 1], kind(unit)).is_some());
        for (program, values) in programs(kind(unit).dtype) {
            let sent: Vec<Value> = values.iter().map(|v| gpu.put(v).unwrap()).collect();
            let (here, there) = (
                run(&program, &values).unwrap(),
                run(&program, &sent).unwrap(),
            );
            assert!(there[0].is_remote());
            assert_eq!(here[0].aval(), there[0].aval());
            assert!(
                numbers(&here[0]) == numbers(&there[0]),
                "{unit:?}:\n{program}"
            );
        }
    }
}

#[test]
fn programs_have_the_results_of_the_processor() {
    let Some(adapter) = adapter() else { return };
    run_all(&adapter, stands_in(&adapter));
}

#[test]
fn programs_with_own_units_have_the_results_of_the_processor() {
    let Some(adapter) = adapter() else { return };
    run_all(&adapter, own(&adapter));
}

/// Validates a shader, and writes it as SPIR-V.
fn translated(source: &str) -> Vec<u32> {
    use naga::valid::{
        Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator,
    };
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{}\n{source}", error.emit_to_string(source)));
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator.subgroup_stages(ShaderStages::all());
    validator.subgroup_operations(SubgroupOperationSet::all());
    let info = validator
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}\n{source}", error.emit_to_string(source)));
    let options = naga::back::spv::Options {
        lang_version: (1, 3),
        ..Default::default()
    };
    naga::back::spv::write_vec(&module, &info, &options, None).unwrap()
}

/// With the variable `COTAN_TEST_SHADERS`, the shaders are written to that folder, as WGSL and as SPIR-V.
#[test]
fn shaders_for_units_are_valid() {
    let Some(adapter) = adapter() else { return };
    let _one = ONE.lock();
    let mut count = 0;
    for (size, factors) in [(8, "f16"), (16, "f16"), (8, "f32"), (16, "f32")] {
        let unit = unit(size, factors, Form::Units);
        if Type::of(kind(unit).dtype, adapter.features()).is_none() {
            continue;
        }
        // As for hardware.
        let gpu = trusted(&adapter, unit);
        let mut context = Context::open(90, "trusted:0", &adapter, Arc::clone(&gpu.units)).unwrap();
        Arc::get_mut(&mut context).unwrap().is_soft = false;
        *gpu.open.lock().unwrap() = Some(Arc::clone(&context));
        NOTED.set(Some(Vec::new()));
        for (program, values) in programs(kind(unit).dtype) {
            let sent: Vec<Value> = values.iter().map(|v| gpu.put(v).unwrap()).collect();
            run(&program, &sent).unwrap();
        }
        context.units.set_trust(kind(unit), Trust::Unknown);
        try_out(&context, kind(unit)).unwrap();
        let noted = NOTED.take().unwrap();
        let mut with_units = noted.iter().filter(|source| source.contains("coop_mat"));
        let first = with_units.clone().count();
        assert!(first >= 12 + 8, "{unit:?}: {first} of {}", noted.len());
        assert!(
            with_units
                .all(|source| source.contains(&format!("coop_mat{size}x{size}<{factors}, A>")))
        );
        for source in noted.iter().filter(|source| source.contains("coop_mat")) {
            let words = translated(source);
            count += 1;
            if let Some(folder) = std::env::var_os("COTAN_TEST_SHADERS") {
                let path = std::path::Path::new(&folder).join(format!("{size}_{factors}_{count}"));
                std::fs::write(path.with_extension("wgsl"), source).unwrap();
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                std::fs::write(path.with_extension("spv"), bytes).unwrap();
            }
        }
    }
    eprintln!("{count} shaders");
}
