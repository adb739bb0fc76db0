"""Writes a program as one function of C99: what `ct.to_c` does.

`c_code.schedule` puts equations into loops, `c_code.scalars` has the elementwise primitives and
`c_code.arrays` the others; here is the memory, and the text around them.
"""

import math
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cotan import _core
from cotan._src.c_code import scalars
from cotan._src.c_code.arrays import ARRAYS, ArrayEquation, start_of, step_of
from cotan._src.c_code.schedule import FIRST_ONLY, Loop, Repeat, Schedule, Step
from cotan._src.c_code.views import View, Writer, contiguous, index, merged, whole
from cotan._src.inspect.nonfinite import recorded_lines
from cotan._src.program.recorded import Entry, PlainProgram, Recorded, VariableType, needed
from cotan._src.typing import Args, Function

_File = str | os.PathLike[str]

# Words that are no names of arguments: those of C99, and what the text uses itself.
_TAKEN = set(
    re.findall(
        r"\w+",
        """
        auto break case char const continue default do double else enum extern float for goto if
        inline int long register restrict return short signed sizeof static struct switch typedef
        union unsigned void volatile while work total most best last NAN
        INFINITY isnan isinf isfinite ptrdiff_t int64_t int32_t uint64_t uint32_t main
        alignas alignof asm bool constexpr false linux nullptr static_assert thread_local true
        typeof typeof_unqual unix
        """,
    )
)
_TAKEN |= {name + suffix for name in scalars.MATH.split("|") for suffix in ("", "f")}
# Macros of the headers, those of compilers' own dialects too, and names of functions in the text.
_RESERVED = re.compile(
    r"(M|FP|MATH|SIG_ATOMIC|WCHAR|WINT)_\w+|(PTRDIFF|SIZE|U?INT\w+)_(MIN|MAX|C|WIDTH)|NULL|X_TLOSS"
    r"|HUGE(_VAL\w*)?|D?INFINITY|S?NANF?|DOMAIN|SING|OVERFLOW|UNDERFLOW|[TP]LOSS|math_errhandling"
    r"|signgam|offsetof|cotan_\w+"
)
# Functions that math.h declares besides those of C99, and those of it that nothing here calls.
_DECLARED = re.compile(
    r"([jy][01n]|l?gamma(_r)?|tgamma|drem|significand|scalbl?n?|finite|isinf|isnan|exp10|pow10|sincos"
    r"|ldexp|frexp|modf|[il]?logb|l?l?r(ound|int)|nearbyint|next(after|toward|up|down)|remainder"
    r"|remquo|fdim|fma|nan|round(even)?|u?fromfpx?)[fl]?"
)

# The member of the workspace for each dtype.
_MEMBERS = {"float64": "d", "float32": "f", "int64": "l", "int32": "i", "bool": "b"}


def write_function(f: Function, args: Args, path: _File, name: str, gradient: bool) -> None:
    """Write a function, a program or a pullback as C."""
    is_word = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    if not is_word or _is_taken(name) or _DECLARED.fullmatch(name):
        raise ValueError(
            f"to_c: name={name!r} is no name of a function of C, or one that its headers take"
        )
    if isinstance(f, (_core.Program, _core.Pullback)) and (args or gradient):
        kind = "Program" if isinstance(f, _core.Program) else "Pullback"
        raise TypeError(
            f"to_c: a {kind} is written as it is, without arguments and gradient=; "
            "program.pullback() has its derivatives"
        )
    if isinstance(f, _core.Program):
        program = f
        found: Any = _core.plain(program)
        plain: PlainProgram = found
        count = len(plain["names"]) - len(plain["constants"])
        inputs = [n or f"x{i}" for i, n in enumerate(plain["names"][:count])]
        results = plain["output_names"]
        outputs = [n or ("y" if len(results) == 1 else f"y[{i}]") for i, n in enumerate(results)]
    else:
        recorded = _recorded(f, _cotangents(f) if isinstance(f, _core.Pullback) else args, gradient)
        program, plain = recorded.program, recorded.plain
        inputs, outputs = recorded.inputs, recorded.outputs
        if isinstance(f, _core.Pullback):
            inputs = ["dy"][: len(inputs)]
            outputs = [v.name or path for v, path in zip(f.program.outputs, outputs, strict=True)]
    text = _Function(program, plain, inputs, outputs, name).text()
    _core.write_file(path, text.encode())


def _cotangents(back: _core.Pullback) -> Args:
    """Give a cotangent to record a pullback with."""
    names = [v.name for v in back.program.inputs]
    if any(name.startswith(("dy.", "dy[")) for name in names if name):
        raise ValueError(
            "to_c: the pullback is that of a function with several results; write "
            "lambda x, dy: ct.pullback(f, x)[1](dy)"
        )
    # Without influence of any argument there is none.
    return tuple(np.ones(v.shape, v.dtype) for v in back.program.inputs if v.name == "dy")


def _recorded(f: Function, args: Args, gradient: bool) -> Recorded:
    try:
        with recorded_lines():  # which refusals name
            return Recorded("to_c", f, args, {}, gradient)
    except (TypeError, ValueError) as error:
        if not str(error).startswith("to_onnx: "):
            raise
        # What both exporters record with is compiled, and names one of them.
        raise type(error)(str(error).replace("to_onnx: ", "to_c: ", 1)) from None


class _Function:
    """A program on its way to C."""

    def __init__(
        self,
        program: _core.Program,
        plain: PlainProgram,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str,
    ) -> None:
        self._program, self._plain, self._name = program, plain, name
        self._table = {entry["name"]: entry for entry in _core.table()}
        macros = {f"{name.upper()}_{suffix}" for suffix in ("TYPES", "DECLARATIONS")}
        used = {name, f"{name}_work", *macros}
        self._inputs = [_identifier(n, used) for n in inputs]
        self._outputs = [_identifier(n, used) for n in outputs]
        self._paths = [*inputs, *outputs]
        for i, path in enumerate(inputs):
            self._expect_type(path, plain["types"][i][0])
        for path, variable in zip(outputs, plain["outputs"], strict=True):
            self._expect_type(path, plain["types"][variable][0])
        equations = needed(plain, FIRST_ONLY)
        self._schedule = Schedule(plain, equations, self._table, self._refuse)
        self._types = self._schedule.types
        self._places: dict[int, str] = {}
        self._slices: set[int] = set()
        self._count = 0
        self._aliases = self._direct_outputs()
        self._work = self._allocate()
        self._write = Writer()

    @staticmethod
    def _expect_type(path: str, dtype: str) -> None:
        if dtype not in scalars.TYPES:
            advice = (
                "write real and imaginary parts as two real arrays"
                if dtype.startswith("complex")
                else "cast it to float64, float32, int64 or int32"
            )
            raise ValueError(f"to_c: {path} is of dtype {dtype}, which has no C here; {advice}")

    def _refuse(self, entry: Entry, types: list[VariableType], reason: str) -> None:
        """Refuse an equation by its name, its types and its line."""
        name, args, out, params = entry

        def shown(variable: int) -> str:
            dtype, shape = types[variable]
            return f"{dtype}[{','.join(map(str, shape))}]"

        lines = [e.line for e in self._program.equations if e.primitive == name and e.line]
        where = f", at {lines[0]}" if lines else ""
        text = ", ".join(map(shown, args))
        # What is called back has the name that its user gave it.
        raise ValueError(
            f"to_c: {params.get('name', name)}({text}) -> {shown(out)}{where}: {reason}"
        )

    # ----------------------------------------------------------------------------------------------
    # Memory

    def _direct_outputs(self) -> dict[int, int]:
        """Give the variables that are computed in the memory of an output."""
        found: dict[int, int] = {}
        for i, view in enumerate(self._schedule.outputs):
            variable = view.base
            is_all = view.is_whole and view.size == math.prod(self._types[variable][1])
            if variable in self._schedule.stored and is_all and variable not in found:
                found[variable] = i
        return found

    def _allocate(self) -> dict[str, int]:
        """Give each stored variable a place in the workspace; gives the sizes by dtype.

        A place is free again after the last step that reads it.
        """
        sizes: dict[str, int] = {}
        self._place(self._schedule, sizes, {})
        # The widest first, so that there is no gap between them.
        return {dtype: sizes[dtype] for dtype in scalars.TYPES if sizes.get(dtype)}

    def _place(
        self, schedule: Schedule, sizes: dict[str, int], free: dict[str, list[tuple[int, int]]]
    ) -> None:
        """Give places to what some steps store, and to what the bodies of loops among them do."""
        busy: list[tuple[int, str, int, int]] = []
        by_step: dict[int, list[int]] = {}
        for variable in schedule.stored:
            by_step.setdefault(schedule.made[variable], []).append(variable)
        for k, step in enumerate(schedule.steps):
            for entry in [b for b in busy if b[0] < k]:
                busy.remove(entry)
                _release(free.setdefault(entry[1], []), entry[2], entry[3])
            for variable in sorted(by_step.get(k, [])):
                if variable in self._aliases:
                    continue
                dtype, shape = self._types[variable]
                size = max(math.prod(shape), 1)
                start = _take(free.setdefault(dtype, []), size)
                if start is None:
                    start = sizes.get(dtype, 0)
                    sizes[dtype] = start + size
                self._places[variable] = f"work->{_MEMBERS[dtype]} + {start}"
                busy.append((schedule.stored[variable], dtype, start, size))
            if isinstance(step, Repeat):
                self._slices.update(step.slices)
                self._place(step.body, sizes, free)
        for _, dtype, start, size in busy:
            _release(free[dtype], start, size)

    def _name_of(self, variable: int) -> str:
        count = len(self._inputs)
        if variable < count:
            return self._inputs[variable]
        if variable < len(self._plain["names"]):
            return f"c{variable}"
        if variable in self._aliases:
            return self._outputs[self._aliases[variable]]
        is_memory = variable in self._places or variable in self._slices
        return f"t{variable}" if is_memory else f"v{variable}"

    def _element(self, view: View, names: Sequence[str]) -> str:
        """Give an element of a view as C."""
        number = self._schedule.numbers.get(view.base)
        if number is not None:
            return number
        if self._schedule.is_number(view.base):
            return f"v{view.base}"
        return f"{self._name_of(view.base)}[{index(view.offset, view.strides, names)}]"

    # ----------------------------------------------------------------------------------------------
    # Text

    def text(self) -> str:
        """Give the file."""
        w = self._write
        self._steps()
        for i, view in enumerate(self._schedule.outputs):
            if self._aliases.get(view.base) != i:
                self._copy(self._outputs[i], view)
        body = "\n".join(w.lines)
        places = [
            f"    {self._kind(variable)} *const t{variable} = {place};\n"
            for variable, place in self._places.items()
            if _mentions(body, f"t{variable}")
        ]
        unused = [] if places else ["work"]
        unused += [name for name in self._inputs if not _mentions(body, name)]
        body = "".join([*places, *(f"    (void){name};\n" for name in unused), body])
        parts = [self._head(), *self._constants(body), *scalars.helpers(body)]
        return "\n".join([*parts, f"{self._prototype()}\n{{\n{body}\n}}\n\n#endif\n"])

    def _steps(self) -> None:
        """Write all steps of the program, or of the body of a loop."""
        for step in self._schedule.steps:
            if isinstance(step, Loop):
                self._loop(step)
            elif isinstance(step, Repeat):
                self._repeat(step)
            else:
                self._array(step)

    def _copy(self, target: str, view: View, at: str = "0", value: str = "") -> None:
        """Copy a view, or a value in its place, into memory: into the slice of this number."""
        size, strides = view.size, contiguous(view.shape)
        with self._write.loops(view.shape) as names:
            place = index(0, [0 if at == "0" else size, *strides], [at, *names])
            self._write(f"{target}[{place}] = {value or self._element(view, names)};")

    def _repeat(self, step: Repeat) -> None:
        """Write a loop over a body."""
        w, outer = self._write, self._schedule
        first, after = step.carries, step.carries + step.scanned
        for carried, view in zip(step.carried, step.reads, strict=False):
            self._copy(self._name_of(carried), view)
        scanned = [v for v in step.reads[first:after] if not outer.is_constant(v.base)]
        length, goes_on, missing = self._end_of(step)
        with w.loops([length], goes_on) as (k,):
            last = length - 1 if isinstance(length, int) else f"{length} - 1"
            at = f"({last} - {k})" if step.reverse else k
            for variable, view in zip(step.slices, scanned, strict=True):
                if variable in step.body.read:
                    start = index(view.offset, view.strides[:1], [at])
                    source = f"{self._name_of(view.base)} + {start}"
                    w(f"const {self._kind(variable)} *const t{variable} = {source};")
            self._stack(step, "before", [self._whole(v) for v in step.carried], at)
            self._schedule = step.body
            self._steps()
            self._stack(step, "stacked", step.body.outputs[first:], at)
            self._carry_on(step)
            self._schedule = outer
        if missing:
            self._spoil(step, missing)

    def _end_of(self, step: Repeat) -> tuple[int | str, str, str]:
        """Give how many steps a loop takes, what holds before each, and when some are missing."""
        w = self._write
        if step.end == "count":
            length = f"n{self._count}"
            self._count += 1
            count = self._element(step.reads[-1], [])
            w(f"const ptrdiff_t {length} = {count} < {step.length} ? {count} : {step.length};")
            for _, _, variable in step.stacks:
                self._clear(variable)
            return length, "", f"{count} > {step.length}"
        if step.end == "false":
            goes_on = f"{self._name_of(step.carried[0])}[0]"
            return step.length or "PTRDIFF_MAX", goes_on, goes_on if step.length else ""
        return step.length, "", ""

    def _carry_on(self, step: Repeat) -> None:
        """Write what a step carries on to where the next one reads it."""
        results = step.body.outputs
        for j, variable in step.waiting.items():
            self._copy(self._name_of(variable), results[j])
        for j, variable in enumerate(step.carried):
            if j not in step.waiting and results[j].base != variable:
                self._copy(self._name_of(variable), results[j])
        for j, variable in step.waiting.items():
            self._copy(self._name_of(step.carried[j]), self._whole(variable))

    def _clear(self, variable: int) -> None:
        """Write zeros to all of a variable."""
        size = math.prod(self._types[variable][1])
        with self._write.loops([size]) as (k,):
            self._write(f"{self._name_of(variable)}[{k}] = 0;")

    def _spoil(self, step: Repeat, condition: str) -> None:
        """Make NaN of what a loop carries if it would have to take more steps than it can."""
        spoilt = [v for v in step.carried if self._types[v][0] in scalars.FLOATS]
        if spoilt:
            with self._write.block(f"if ({condition})"):
                for variable in spoilt:
                    self._copy(self._name_of(variable), self._whole(variable), "0", "NAN")

    def _whole(self, variable: int) -> View:
        return whole(variable, self._types[variable][1])

    def _stack(self, step: Repeat, kind: str, views: Sequence[View], at: str) -> None:
        """Write what is stacked of a step."""
        for of, number, variable in step.stacks:
            if of == kind:
                self._copy(self._name_of(variable), views[number], at)

    def _loop(self, loop: Loop) -> None:
        w = self._write
        if 0 in loop.shape:
            self._totals(loop)
            self._means(loop)
            return
        inside = {entry[2] for entry, _ in loop.equations}
        memory = [
            v
            for _, views in loop.equations
            for v in dict.fromkeys(views)
            if v.base not in inside
            and v.base not in self._schedule.numbers
            and not self._schedule.is_number(v.base)
        ]
        sizes, (own, *strides) = merged(loop.shape, [whole(-1, loop.shape), *memory])
        places = dict(zip(memory, strides, strict=True))

        def element(view: View, names: Sequence[str]) -> str:
            if view.base in inside:
                return f"v{view.base}"
            if view not in places:
                return self._element(view, [])
            return f"{self._name_of(view.base)}[{index(view.offset, places[view], names)}]"

        self._totals(loop)
        with w.loops(sizes) as names:
            for entry, views in loop.equations:
                out = entry[2]
                value = self._value(entry, [element(v, names) for v in views])
                w(f"const {self._kind(out)} v{out} = {value};")
                if loop.shape and out in self._schedule.stored:
                    w(f"{self._name_of(out)}[{index(0, own, names)}] = v{out};")
            for entry, view in loop.reductions:
                name, _, out, _ = entry
                w(step_of(name, self._types[out][0], f"v{out}", f"v{view.base}"))
        self._means(loop)

    def _totals(self, loop: Loop) -> None:
        """Write what the reductions of a loop begin with."""
        for entry, _ in loop.reductions:
            name, _, out, _ = entry
            self._write(f"{self._kind(out)} v{out} = {start_of(name, self._types[out][0])};")

    def _means(self, loop: Loop) -> None:
        """Write what is left of means when a loop is over."""
        for (name, _, out, _), _ in loop.reductions:
            if name == "mean":
                count = scalars.number(math.prod(loop.shape), self._types[out][0])
                self._write(f"v{out} /= {count};")

    def _kind(self, variable: int) -> str:
        return scalars.TYPES[self._types[variable][0]]

    def _value(self, entry: Entry, args: list[str]) -> str:
        name, sources, out, _ = entry
        dtypes = [self._types[a][0] for a in sources]
        if name == "copy":
            return args[0]
        if name == "cast":
            return scalars.cast(args[0], dtypes[0], self._types[out][0])
        source = dtypes[1 if name == "where" else 0]
        return scalars.expression(self._table[name], source, args) or ""

    def _array(self, step: Step) -> None:
        name, args, out, params = step.entry
        if out not in self._schedule.stored:
            return
        inputs = [
            (view, self._types[a][0], self._element)
            for view, a in zip(step.reads, args, strict=True)
        ]
        dtype, shape = self._types[out]
        equation = ArrayEquation(params, inputs, (whole(out, shape), dtype, self._element))
        self._write(f"/* {name} */")
        with self._write.block(""):
            ARRAYS[name](self._write, equation)

    def _prototype(self) -> str:
        types = self._plain["types"]
        parts = [
            f"const {scalars.TYPES[types[i][0]]} *restrict {n}" for i, n in enumerate(self._inputs)
        ]
        parts += [
            f"{scalars.TYPES[types[v][0]]} *restrict {n}"
            for n, v in zip(self._outputs, self._plain["outputs"], strict=True)
        ]
        parts.append(f"{self._name}_work *work")
        inner = ",\n    ".join(parts)
        return f"void {self._name}(\n    {inner})"

    def _head(self) -> str:
        types = self._plain["types"]
        variables = [*range(len(self._inputs)), *self._plain["outputs"]]
        names = [*self._inputs, *self._outputs]
        rows = []
        for k, (variable, name, path) in enumerate(zip(variables, names, self._paths, strict=True)):
            dtype, shape = types[variable]
            kind = "in " if k < len(self._inputs) else "out"
            called = f" ({path})" if path != name else ""
            rows.append(f"     {kind}  {name}{called}: {dtype} [{', '.join(map(str, shape))}]")
        arrays = "\n".join(rows).replace("*/", "* /")
        members = "\n".join(
            f"    {scalars.TYPES[d]} {_MEMBERS[d]}[{n}];" for d, n in self._work.items()
        )
        own = f"{self._name.upper()}_DECLARATIONS"
        return f"""\
/* Written by cotan {_core.__version__}.

   void {self._name}(...) computes from the arrays that are marked "in" those marked "out":

{arrays}

   Arrays are in row-major order; [] is one number. They must not overlap. Bools are 0 or 1, and
   indices have to be inside of their arrays. The function allocates nothing and keeps no state: it
   writes to its outputs and to *work, which need not be initialised.

   To call it from other files, define {own} and include this one: it then
   declares the function and its workspace, and defines nothing. Link with -lm. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifndef {self._name.upper()}_TYPES
#define {self._name.upper()}_TYPES
typedef struct {{
{members or "    char nothing;"}
}} {self._name}_work;

{self._prototype()};
#endif

#ifndef {own}
"""

    def _constants(self, body: str) -> Iterable[str]:
        first = len(self._inputs)
        for i, constant in enumerate(self._plain["constants"]):
            name = f"c{first + i}"
            if not _mentions(body, name):
                continue
            dtype, _ = self._plain["types"][first + i]
            values = [scalars.number(v, dtype) for v in np.asarray(constant).ravel()] or ["0"]
            lines, line = [], "   "
            for value in values:
                if len(line) + len(value) > 98:
                    lines.append(line)
                    line = "   "
                line += f" {value},"
            lines.append(line)
            inner = "\n".join(lines)
            yield f"static const {scalars.TYPES[dtype]} {name}[] = {{\n{inner}\n}};\n"


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _identifier(path: str, used: set[str]) -> str:
    """Give a name of C for a path such as `net.w[0]`."""
    name = re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_") or "x"
    if name[0].isdigit() or re.fullmatch(r"[cintv]\d+", name):
        name = f"x_{name}"
    while name in used or _is_taken(name):
        name = f"x_{name}" if _RESERVED.fullmatch(name) else f"{name}_"
    used.add(name)
    return name


def _is_taken(name: str) -> bool:
    """Whether a word is one of C, of its headers, or of the text around the loops."""
    return name in _TAKEN or _RESERVED.fullmatch(name) is not None


def _take(free: list[tuple[int, int]], size: int) -> int | None:
    """Take memory from the smallest piece that is large enough."""
    fits = [piece for piece in free if piece[1] >= size]
    if not fits:
        return None
    start, length = min(fits, key=lambda piece: piece[1])
    free.remove((start, length))
    if length > size:
        free.append((start + size, length - size))
    return start


def _release(free: list[tuple[int, int]], start: int, size: int) -> None:
    """Give memory back, joined with its neighbours."""
    for piece in list(free):
        if piece[0] + piece[1] == start:
            free.remove(piece)
            start, size = piece[0], piece[1] + size
        elif start + size == piece[0]:
            free.remove(piece)
            size += piece[1]
    free.append((start, size))
