"""Loops as ONNX's `Scan`, or as `Loop` where no array is scanned: the body is written once.

What is the same in all steps is read in the body by the name that it has outside of it. A loop that
ends before its length is reached is a `Loop`, which reads its slices by the number of the step.
"""

from typing import Any

from cotan._src.onnx.graph import Equation, Graph
from cotan._src.program.recorded import VariableType


def looped(g: Graph, e: Equation) -> str:
    """Write a loop with all its outputs when the first of them is asked for; gives one of them."""
    group = e.params["group"]
    if group not in g.loops:
        g.loops[group] = _Loop(g, e).written()
    return g.loops[group][tuple(e.params["output"])]


class _Loop:
    """A loop on its way into a graph."""

    def __init__(self, g: Graph, e: Equation) -> None:
        self._g, self._params = g, e.params
        p = e.params
        self._body, self._length = p["body"], p["length"]
        self._end, self._reverse = p["end"], p["reverse"]
        own = p["carries"] + p["scanned"]
        self._carries = e.x[: p["carries"]]
        self._scanned, self._shared = e.x[p["carries"] : own], e.x[own:]
        #: What is stacked: results of a step, and what carries were before it.
        self._stacked = [(kind, k) for kind, k in p["outputs"] if kind != "last"]
        self._is_scan = bool(self._scanned) and self._end == "length"

    def written(self) -> dict[tuple[str, int], str]:
        """Write it; gives the names of its outputs."""
        g, count = self._g, len(self._carries)
        if self._is_scan:
            backwards = int(self._reverse)
            outwards = {"scan_output_directions": [backwards] * len(self._stacked)}
            names = g.ops(
                "Scan",
                *self._carries,
                *self._scanned,
                outputs=count + len(self._stacked),
                body=self._graph(),
                num_scan_inputs=len(self._scanned),
                scan_input_directions=[backwards] * len(self._scanned),
                **(outwards if self._stacked else {}),
            )
        else:
            # It may be left out, where an evaluator of ONNX takes no step.
            goes_on = self._carries[0] if self._end == "false" else g.const(True, "bool")
            outputs = count + len(self._stacked)
            names = g.ops(
                "Loop", self._steps(), goes_on, *self._carries, outputs=outputs, body=self._graph()
            )
            for k, (kind, number) in enumerate(self._stacked, count):
                names[k] = self._in_order(names[k], self._kind(kind, number))
        keys = [*(("last", j) for j in range(count)), *self._stacked]
        return dict(zip(keys, names, strict=True))

    def _steps(self) -> str:
        """Give how many steps there are, where a number says so."""
        if self._end == "count":
            return self._shared[-1]
        if self._end == "false":
            return ""
        return self._g.scalar(self._g.length(self._length))

    def _kind(self, kind: str, number: int) -> VariableType:
        """Give the type of a slice of what is stacked."""
        place = number if kind == "before" else len(self._carries) + number
        found: VariableType = self._body["types"][self._body["outputs"][place]]
        return found

    def _in_order(self, x: str, type: VariableType) -> str:
        """Put the slices of a `Loop` where they belong, and zeros behind them."""
        g = self._g
        if self._reverse:
            first, last, step = (g.const([n], "int64") for n in (-1, -(2**31), -1))
            x = g.op("Slice", x, first, last, g.const([0], "int64"), step)
        if self._end == "length":
            return x
        count = g.reshape(self._shared[-1], [1])
        rest = g.op("Sub", g.length(self._length), count)
        dtype, shape = type
        return str(g.op("Concat", x, g.expand(g.const(0, dtype), [rest, *shape]), axis=0))

    def _graph(self) -> object:
        """Give the body as a graph of its own."""
        g, count = self._g, len(self._carries)
        types: list[VariableType] = self._body["types"]
        names = [g.name(f"carry{j}") for j in range(count)]
        slices = [g.name("slice") for _ in self._scanned if self._is_scan]
        infos = [g.info(name, types[i]) for i, name in enumerate([*names, *slices])]
        step, goes_on = g.name("step"), g.name("goes_on")
        with g.inside() as nodes:
            if not self._is_scan:
                slices = [self._slice(x, step) for x in self._scanned]
            variables = dict(enumerate([*names, *slices, *self._shared]))
            g.write(self._body["equations"], types, variables)
            outs = [variables[v] for v in self._body["outputs"]]
            results = [(out, self._kind("before", j)) for j, out in enumerate(outs[:count])]
            for kind, number in self._stacked:
                out = names[number] if kind == "before" else outs[count + number]
                results.append((out, self._kind(kind, number)))
            if not self._is_scan:
                truth: VariableType = ("bool", [])
                infos = [g.info(step, ("int64", [])), g.info(goes_on, truth), *infos]
                results.insert(0, (outs[0] if self._end == "false" else goes_on, truth))
            # A result has to be made in the body, and only once.
            made = [(g.op("Identity", out), kind) for out, kind in results]
        return g.onnx.helper.make_graph(nodes, "body", infos, [g.info(*one) for one in made])

    def _slice(self, x: str, step: str) -> Any:
        """Read the slice of a step."""
        g = self._g
        if self._reverse:
            last = g.op("Sub", self._shared[-1], g.const(1, "int64"))
            step = g.op("Sub", last, step)
        return g.op("Gather", x, step, axis=0)
