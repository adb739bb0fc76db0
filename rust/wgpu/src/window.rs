//! Windows that move along the last axes: which elements they see, their sums and greatest elements.

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;
use cotan::aval::WindowDim;

use crate::context::Context;
use crate::memory::Memory;
use crate::shader::{Dispatch, Shader};
use crate::types::Type;

/// What the tap `tap` of the window at place `spot` sees. The texts come in parts, since divisions take long: what depends
/// on the place alone may stand before the loop over taps, and the numbers of a tap along the axes may be counted.
pub struct Seen {
    /// Statements for the place.
    pub of_spot: String,
    /// Statements that find the numbers of the tap along the axes.
    pub of_tap: String,
    /// Statements that make these the numbers of the next tap; behind the last one comes the first.
    pub next_tap: String,
    /// Statements for both.
    pub of_both: String,
    /// Whether they see an element.
    pub inside: String,
    /// Its number, which is an `i32`.
    pub at: String,
}

impl Seen {
    /// All statements, where nothing was found before.
    pub fn before(&self) -> String {
        [&self.of_spot[..], &self.of_tap, &self.of_both].concat()
    }

    /// What may stand before a loop over all taps.
    fn outside(&self) -> String {
        [&self.of_spot[..], &self.of_tap].concat()
    }

    /// The names of what depends on the place with a number behind them, for kernels that have several places.
    pub fn numbered(text: &str, number: usize) -> String {
        text.replace("_here", &format!("_{number}"))
    }
}

/// The element that a tap sees, with the names of the numbers of the window and the tap.
pub fn places(
    shader: &mut Shader<'_>,
    dims: &[WindowDim],
    lengths: &[usize],
    spot: &str,
    tap: &str,
) -> Seen {
    let mut of_spot = format!("  var spot_here = {spot};\n");
    let mut of_tap = format!("  var tap_left = {tap};\n");
    let (mut of_both, mut next_tap) = (String::new(), String::new());
    let (mut inside, mut at) = (Vec::new(), String::from("0"));
    for (axis, (d, &n)) in dims.iter().zip(lengths).enumerate().rev() {
        let [size, len] = [d.size, d.len].map(|n| shader.param(n as u32));
        let [stride, dilation, expansion, length] = [d.stride, d.dilation, d.expansion, n]
            .map(|n| format!("i32({})", shader.param(n as u32)));
        let pad = format!("i32({})", shader.param(d.pad as u32));
        let _ = writeln!(
            of_spot,
            "  let start{axis}_here = i32(spot_here % {size}) * {stride} - {pad}; spot_here = spot_here / {size};"
        );
        let _ = writeln!(
            of_tap,
            "  var tap{axis} = tap_left % {len}; tap_left = tap_left / {len};"
        );
        let more = if axis == 0 {
            String::new()
        } else {
            format!(" tap{} = tap{} + 1u;", axis - 1, axis - 1)
        };
        let _ = writeln!(
            next_tap,
            "  if (tap{axis} == {len}) {{ tap{axis} = 0u;{more} }}"
        );
        let _ = writeln!(
            of_both,
            "  let place{axis}_here = start{axis}_here + i32(tap{axis}) * {dilation};"
        );
        let found = if d.expansion == 1 {
            format!("place{axis}_here")
        } else {
            inside.push(format!("place{axis}_here % {expansion} == 0"));
            format!("(place{axis}_here / {expansion})")
        };
        inside.push(format!("place{axis}_here >= 0 && {found} < {length}"));
        let _ = writeln!(of_both, "  let at{axis}_here = {found};");
    }
    for (axis, &n) in lengths.iter().enumerate() {
        let length = format!("i32({})", shader.param(n as u32));
        at = format!("({at} * {length} + at{axis}_here)");
    }
    if let Some(last) = dims.len().checked_sub(1) {
        next_tap = format!("  tap{last} = tap{last} + 1u;\n{next_tap}");
    }
    Seen {
        of_spot,
        of_tap,
        next_tap,
        of_both,
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
    let seen = places(&mut shader, windows.dims, windows.lengths(), "spot", "0u");
    let Seen { inside, at, .. } = &seen;
    let load = kind.load(&format!("{name}[plane * {p_pixels} + u32({at})]"));
    let body = format!(
        "  let plane = i / {p_spots}; let spot = i % {p_spots};\n{}  var acc = {}(0);\n  \
         for (var tap = 0u; tap < {p_taps}; tap = tap + 1u) {{\n{}  if ({inside}) {{ acc = acc + {load}; }}\n{}  }}\n  \
         {out}[i] = {};\n",
        seen.outside(),
        kind.name,
        seen.of_both,
        seen.next_tap,
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
    let seen = places(&mut shader, windows.dims, windows.lengths(), "spot", "0u");
    let Seen { inside, at, .. } = &seen;
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
        "  let plane = i / {p_spots}; let spot = i % {p_spots};\n{}  var best = {}(0); var which = 0xffffffffu; var place = 0u;\n  \
         for (var tap = 0u; tap < {p_taps}; tap = tap + 1u) {{\n{}  if ({inside}) {{\n    let v = {load};\n    \
         if (which == 0xffffffffu || v > best || ({nan}(v) && !{nan}(best))) {{\n      \
         best = v; which = tap; place = plane * {p_pixels} + u32({at});\n    }}\n  }}\n{}  }}\n  {store}\n",
        seen.outside(),
        kind.name,
        seen.of_both,
        seen.next_tap,
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
    let seen = places(&mut shader, &back, &lengths, "spot", "0u");
    let Seen { inside, at, .. } = &seen;
    let load = kind.load(&format!("{name}[seen]"));
    // The windows that see an element, in their order.
    let body = format!(
        "  let plane = i / {p_pixels}; let spot = i % {p_pixels};\n{}  var acc = {}(0);\n  \
         for (var tap = 0u; tap < {p_taps}; tap = tap + 1u) {{\n{}  if ({inside}) {{\n    \
         let seen = plane * {p_spots} + u32({at});\n    if ({list}[seen] == {p_taps} - 1u - tap) {{ acc = acc + {load}; }}\n  }}\n{}  }}\n  \
         {out}[i] = {};\n",
        seen.outside(),
        kind.name,
        seen.of_both,
        seen.next_tap,
        kind.store("acc"),
    );
    let second = shader.over(windows.planes() * windows.pixels(), &body)?;
    Ok(vec![first, second])
}
