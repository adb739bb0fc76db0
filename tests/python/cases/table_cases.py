"""What the tests of primitives share: the table, references in NumPy, arguments of samples."""

import ast

import numpy as np
import pytest
import scipy.special

import cotan as ct
from cotan import _core

TABLE = {entry["name"]: entry for entry in _core.table()}
SHORT = {
    "bool": "bool", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32",
    "uint32": "u32", "int64": "i64", "uint64": "u64", "float16": "f16", "float32": "f32",
    "float64": "f64", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
DTYPES = list(SHORT)

# Kinds of dtypes of entries that do not take floats.
INTEGER = {"integer", "integer number"}

# --------------------------------------------------------------------------------------------------
# What the primitives without a NumPy expression do


def region(start, len, step):
    stops = [(a + n * s) for a, n, s in zip(start, len, step, strict=True)]
    return tuple(
        slice(a, None if b < 0 else b, s) for a, b, s in zip(start, stops, step, strict=True)
    )


def padded(x, shape, **dims):
    out = np.zeros(shape, x.dtype)
    out[region(**dims)] = x
    return out


def updated(x, y, **dims):
    out = x.copy()
    out[region(**dims)] = y
    return out


def scattered(x, index, updates, add):
    out = x.copy()
    if add:
        np.add.at(out, index, updates)
    else:
        out[index] = updates
    return out


def accumulated(ufunc):
    def scan(x, axis, reverse):
        if reverse:
            return np.flip(scan(np.flip(x, axis), axis, False), axis)
        return ufunc.accumulate(x, axis)

    return scan


def recurrence(a, b, axis, reverse):
    a, b = (np.moveaxis(np.flip(v, axis) if reverse else v, axis, 0) for v in (a, b))
    y = b.copy()
    for i in range(1, len(y)):
        y[i] = a[i] * y[i - 1] + b[i]
    y = np.moveaxis(y, 0, axis)
    return np.flip(y, axis) if reverse else y


def fft(x, axes, inverse, scale):
    axes = axes if isinstance(axes, tuple) else (axes,)
    if inverse:
        return np.fft.ifftn(x, axes=axes, norm="forward") * scale
    return np.fft.fftn(x, axes=axes) * scale


def rfft(x, axis, length, folded, scale):
    assert x.shape[axis] == length
    y = np.moveaxis(np.fft.rfft(x, axis=axis) * scale, axis, -1)
    if folded:
        y[..., 1 : (length + 1) // 2] *= 2
    return np.moveaxis(y, -1, axis)


def irfft(x, axis, length, folded, scale):
    x = np.moveaxis(np.array(x), axis, -1)
    if folded:
        x[..., 1 : (length + 1) // 2] /= 2
    return np.moveaxis(np.fft.irfft(x, length, norm="forward") * scale, -1, axis)


def taps(x, lead, **windows):
    """Give what each tap of a window sees at each place: `lead` axes, places, taps."""
    ways = zip(
        *(windows[k] for k in ("size", "len", "pad", "stride", "dilation", "expansion")),
        strict=True,
    )
    seen = np.asarray(x)
    for i, (size, length, pad, stride, dilation, expansion) in enumerate(ways):
        at = np.arange(size)[:, None] * stride + np.arange(length) * dilation - pad
        inside = (at >= 0) & (at % expansion == 0) & (at // expansion < x.shape[lead + i])
        axis = lead + 2 * i
        picked = np.take(seen, np.where(inside, at // expansion, 0), axis)
        mask = inside.reshape((1,) * axis + inside.shape + (1,) * (seen.ndim - axis - 1))
        seen = np.where(mask, picked, 0)
    n = len(windows["size"])
    order = [*range(lead), *range(lead, lead + 2 * n, 2), *range(lead + 1, lead + 2 * n, 2)]
    return seen.transpose(order)


def window_taps(x, **windows):
    """Values of windows, taps flat in the last axis."""
    n = len(windows["size"])
    seen = taps(x, x.ndim - n, **windows)
    return seen.reshape(*seen.shape[: x.ndim], -1)


def convolved(x, y, **windows):
    letters = "pqr"[: len(windows["size"])]
    return np.einsum(
        f"ngc{letters}{letters.upper()},goc{letters.upper()}->ngo{letters}",
        taps(x, 3, **windows),
        y,
    )


def first_greatest(x, **windows):
    """For each window the flat position of its first greatest element."""
    places = np.arange(1, x.size + 1).reshape(x.shape)
    at = window_taps(places, **windows) - 1
    seen = np.where(at >= 0, window_taps(x, **windows), -np.inf)
    return np.take_along_axis(at, np.argmax(seen, -1)[..., None], -1)[..., 0]


def unpicked(x, y, **windows):
    out = np.zeros(x.size, y.dtype)
    np.add.at(out, first_greatest(x, **windows), y)
    return out.reshape(x.shape)


REFERENCES = {
    "conv": convolved,
    "window_sum": lambda x, **windows: window_taps(x, **windows).sum(-1),
    "window_max": lambda x, **windows: x.reshape(-1)[first_greatest(x, **windows)],
    "window_pick": lambda x, y, **windows: y.reshape(-1)[first_greatest(x, **windows)],
    "window_unpick": unpicked,
    "fft": fft,
    "rfft": rfft,
    "irfft": irfft,
    "cumsum": accumulated(np.add),
    "cummax": accumulated(np.maximum),
    "cummin": accumulated(np.minimum),
    "linear_recurrence": recurrence,
    "slice": lambda x, **dims: x[region(**dims)],
    "pad": padded,
    "gather": lambda x, index: x[index],
    "scatter_add": lambda x, index, updates: scattered(x, index, updates, True),
    "scatter": lambda x, index, updates: scattered(x, index, updates, False),
    "update": updated,
    "update_add": lambda x, y, **dims: updated(x, x[region(**dims)] + y, **dims),
}

# They compare.
REAL_ONLY = {"window_max", "window_pick", "window_unpick"}

# Their arguments are complex, which a sample cannot say.
COMPLEX_ONLY = {"real", "imag", "irfft"}


def values(params):
    """The parameters of a sample as Python values."""
    texts = {k: v.capitalize() if v in {"true", "false"} else v for k, v in params.items()}
    return {k: v if k == "dtype" else ast.literal_eval(v) for k, v in texts.items()}


def reference(name, args, params):
    """What NumPy gives for a primitive."""
    if name in REFERENCES:
        return REFERENCES[name](*args, **values(params))
    names = {long: short for short, long in SHORT.items()}
    texts = {k: f"'{names[v]}'" if k == "dtype" else v for k, v in params.items()}
    text = TABLE[name]["numpy"].format(*(f"a[{i}]" for i in range(len(args))), **texts)
    with np.errstate(all="ignore"):
        return np.asarray(eval(text, {"np": np, "scipy": scipy, "a": args}))


def samples(entry):
    return entry["samples"]


def cases(keep):
    return [
        pytest.param(entry["name"], i, id=f"{entry['name']}-{i}")
        for entry in TABLE.values()
        for i in range(len(samples(entry)))
        if keep(entry)
    ]


def arguments(name, number, dtype="float64", seed=0):
    """Random arguments of a sample, and its parameters."""
    entry = TABLE[name]
    inputs, params = samples(entry)[number]
    rng = np.random.default_rng([seed, number, *name.encode()])
    kind = np.dtype(dtype).kind
    args = []
    for argument, (shape, low, high) in zip(entry["args"] * len(inputs), inputs, strict=False):
        x = rng.uniform(low, high, shape)
        if argument == "index":
            args.append(np.asarray(x.astype(np.int64)))
        elif argument == "cond":
            args.append(np.asarray(x > 0))
        elif entry["types"] in INTEGER:
            args.append(np.asarray(np.round(x).astype(np.int64 if kind in "fc" else dtype)))
        elif kind == "c" or name in COMPLEX_ONLY:
            z = x + 1j * rng.uniform(low, high, shape)
            args.append(
                np.asarray(
                    z.astype(
                        {"float32": "complex64", "complex64": "complex64"}.get(
                            str(dtype), "complex128"
                        )
                    )
                )
            )
        elif entry["types"] == "logical" or kind not in "fc":
            args.append(np.asarray(np.round(np.abs(x) if kind in "bu" else x).astype(dtype)))
        else:
            args.append(np.asarray(x.astype(dtype)))
    return args, params


def apply(name, args, params):
    if TABLE[name]["class"] == "elementwise":
        return getattr(ct, name)(*args)
    return _core.apply(name, *args, **params)


def plain(x):
    return np.asarray(ct.dropgrad(x))


def tolerance(dtype):
    return {"e": 2e-3, "f": 2e-6, "F": 5e-6}.get(np.dtype(dtype).char, 2e-14)


def assert_same(actual, expected, factor=1.0):
    actual = plain(actual)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    rtol = factor * tolerance(expected.dtype)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol)


FLOATING = [
    n for n, e in TABLE.items() if e["class"] == "elementwise" and e["types"] not in INTEGER
]
