//! Windows that move along the last axes: which elements they see, their sums and greatest elements.

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;
use cotan::aval::WindowDim;

use crate::context::Context;
use crate::memory::Memory;
use crate::shader::{Dispatch, Shader};
use crate::types::Type;

/// What the tap `tap` of the window at place `spot` sees: statements, whether it is an element, and its number, which is
/// an `i32`.
pub struct Seen {
    pub before: String,
    pub inside: String,
    pub at: String,
}

/// The element that a tap sees, with the names of the numbers of the window and the tap.
pub fn places(
    shader: &mut Shader<'_>,
    dims: &[WindowDim],
    lengths: &[usize],
    spot: &str,
    tap: &str,
) -> Seen {
    let mut before = format!("  var spot_left = {spot}; var tap_left = {tap};\n");
    let (mut inside, mut at) = (Vec::new(), String::from("0"));
    let mut axes = String::new();
    for (axis, (d, &n)) in dims.iter().zip(lengths).enumerate().rev() {
        let [size, len] = [d.size, d.len].map(|n| shader.param(n as u32));
        let [stride, dilation, expansion, length] = [d.stride, d.dilation, d.expansion, n]
            .map(|n| format!("i32({})", shader.param(n as u32)));
        let pad = format!("i32({})", shader.param(d.pad as u32));
        let _ = writeln!(
            axes,
            "  let t{axis} = i32(spot_left % {size}) * {stride} + i32(tap_left % {len}) * {dilation} - {pad};\n  \
             spot_left = spot_left / {size}; tap_left = tap_left / {len};"
        );
        let found = if d.expansion == 1 {
            format!("t{axis}")
        } else {
            inside.push(format!("t{axis} % {expansion} == 0"));
            format!("(t{axis} / {expansion})")
        };
        inside.push(format!("t{axis} >= 0 && {found} < {length}"));
        let _ = writeln!(axes, "  let at{axis} = {found};");
    }
    before += &axes;
    for (axis, &n) in lengths.iter().enumerate() {
        let length = format!("i32({})", shader.param(n as u32));
        at = format!("({at} * {length} + at{axis})");
    }
    Seen {
        before,
        inside: inside.join(" && "),
        at,
    }
}

/// An array in row-major order, and the windows that move along its last axes.
#[derive(Clone, Copy)]
pub struct Windows<'w> {
    pub dims: &'w [WindowDim],
    /// The shape of the array.
    pub shape: &'w [usize],
}

impl Windows<'_> {
    fn lengths(&self) -> &[usize] {
        &self.shape[self.shape.len() - self.dims.len()..]
    }

    fn planes(&self) -> usize {
        self.shape[..self.shape.len() - self.dims.len()]
            .iter()
            .product()
    }

    fn spots(&self) -> usize {
        self.dims.iter().map(|d| d.size).product()
    }

    fn taps(&self) -> usize {
        self.dims.iter().map(|d| d.len).product()
    }

    fn pixels(&self) -> usize {
        self.lengths().iter().product()
    }
}

/// The sum of each window.
pub fn sums(
    context: &Arc<Context>,
    x: &Arc<Memory>,
    windows: Windows<'_>,
    kind: Type,
    to: &Arc<Memory>,
) -> Result<Dispatch> {
    let mut shader = Shader::new(context);
    let name = shader.bind(x.buffer(), kind.stored, false);
    let out = shader.bind(to.buffer(), kind.stored, true);
    let [p_spots, p_taps, p_pixels] =
        [windows.spots(), windows.taps(), windows.pixels()].map(|n| shader.param(n as u32));
    let Seen { before, inside, at } =
        places(&mut shader, windows.dims, windows.lengths(), "spot", "tap");
    let load = kind.load(&format!("{name}[plane * {p_pixels} + u32({at})]"));
    let body = format!(
        "  let plane = i / {p_spots}; let spot = i % {p_spots};\n  var acc = {}(0);\n  \
         for (var tap = 0u; tap < {p_taps}; tap = tap + 1u) {{\n{before}  if ({inside}) {{ acc = acc + {load}; }}\n  }}\n  \
         {out}[i] = {};\n",
        kind.name,
        kind.store("acc"),
    );
    shader.over(windows.planes() * windows.spots(), &body)
}

/// What is asked of the greatest element of a window.
#[derive(Clone, Copy)]
pub enum Greatest<'m> {
    /// The element.
    Itself,
    /// The element of another array at its place; zero where a window has no element.
    Of(&'m Arc<Memory>),
    /// The number of its tap; none that a window has where it has no element.
    Tap,
}

/// The greatest element of each window, the first of equal ones: NaN is greater than numbers.
pub fn greatest(
    context: &Arc<Context>,
    x: &Arc<Memory>,
    windows: Windows<'_>,
    kind: Type,
    asked: Greatest<'_>,
    to: &Arc<Memory>,
) -> Result<Dispatch> {
    let mut shader = Shader::new(context);
    let name = shader.bind(x.buffer(), kind.stored, false);
    let [p_spots, p_taps, p_pixels] =
        [windows.spots(), windows.taps(), windows.pixels()].map(|n| shader.param(n as u32));
    let Seen { before, inside, at } =
        places(&mut shader, windows.dims, windows.lengths(), "spot", "tap");
    let load = kind.load(&format!("{name}[plane * {p_pixels} + u32({at})]"));
    let nan = format!("isnan_{}", kind.name);
    shader.prelude.add(&nan);
    let store = match asked {
        Greatest::Itself => {
            shader.prelude.add("inf_f32");
            let out = shader.bind(to.buffer(), kind.stored, true);
            let value = format!(
                "select(best, -{}(inf_f32()), which == 0xffffffffu)",
                kind.name
            );
            format!("{out}[i] = {};", kind.store(&value))
        }
        Greatest::Of(y) => {
            let other = shader.bind(y.buffer(), kind.stored, false);
            let out = shader.bind(to.buffer(), kind.stored, true);
            let value = kind.load(&format!("{other}[place]"));
            format!(
                "if (which == 0xffffffffu) {{ {out}[i] = {}; }} else {{ {out}[i] = {}; }}",
                kind.store(&format!("{}(0)", kind.name)),
                kind.store(&value)
            )
        }
        Greatest::Tap => {
            let out = shader.bind(to.buffer(), "u32", true);
            format!("{out}[i] = which;")
        }
    };
    let body = format!(
        "  let plane = i / {p_spots}; let spot = i % {p_spots};\n  var best = {}(0); var which = 0xffffffffu; var place = 0u;\n  \
         for (var tap = 0u; tap < {p_taps}; tap = tap + 1u) {{\n{before}  if ({inside}) {{\n    let v = {load};\n    \
         if (which == 0xffffffffu || v > best || ({nan}(v) && !{nan}(best))) {{\n      \
         best = v; which = tap; place = plane * {p_pixels} + u32({at});\n    }}\n  }}\n  }}\n  {store}\n",
        kind.name,
    );
    shader.over(windows.planes() * windows.spots(), &body)
}

/// Zeros like `x` to which each element of `y` is added where its window of `x` has its greatest element.
pub fn spread_back(
    context: &Arc<Context>,
    [x, y]: [&Arc<Memory>; 2],
    windows: Windows<'_>,
    kind: Type,
    to: &Arc<Memory>,
) -> Result<Vec<Dispatch>> {
    let count = windows.planes() * windows.spots();
    let which = Arc::new(Memory::new(context, Type::WORD, count)?.0);
    let first = greatest(context, x, windows, kind, Greatest::Tap, &which)?;
    // The windows back: their places are the elements, and tap `len - 1 - k` of one sees the window whose tap `k` sees it.
    let back: Vec<WindowDim> = (windows.dims.iter().zip(windows.lengths()))
        .map(|(d, &n)| d.transposed(n))
        .collect();
    let lengths: Vec<usize> = windows.dims.iter().map(|d| d.size).collect();
    let mut shader = Shader::new(context);
    let name = shader.bind(y.buffer(), kind.stored, false);
    let list = shader.bind(which.buffer(), "u32", false);
    let out = shader.bind(to.buffer(), kind.stored, true);
    let [p_spots, p_taps, p_pixels] =
        [windows.spots(), windows.taps(), windows.pixels()].map(|n| shader.param(n as u32));
    let Seen { before, inside, at } = places(&mut shader, &back, &lengths, "spot", "tap");
    let load = kind.load(&format!("{name}[seen]"));
    // The windows that see an element, in their order.
    let body = format!(
        "  let plane = i / {p_pixels}; let spot = i % {p_pixels};\n  var acc = {}(0);\n  \
         for (var tap = 0u; tap < {p_taps}; tap = tap + 1u) {{\n{before}  if ({inside}) {{\n    \
         let seen = plane * {p_spots} + u32({at});\n    if ({list}[seen] == {p_taps} - 1u - tap) {{ acc = acc + {load}; }}\n  }}\n  }}\n  \
         {out}[i] = {};\n",
        kind.name,
        kind.store("acc"),
    );
    let second = shader.over(windows.planes() * windows.pixels(), &body)?;
    Ok(vec![first, second])
}
