"""Exporting to ONNX and comparing with cotan itself."""

import numpy as np
import pytest

import cotan as ct
from cotan import _core

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


def session(path):
    onnx.checker.check_model(str(path), full_check=True)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path, *args):
    s = session(path)
    names = [i.name for i in s.get_inputs()]
    assert len(names) == len(args)
    return s.run(None, {n: np.asarray(a) for n, a in zip(names, args, strict=True)})


def same(got, wanted, rtol, atol=0.0):
    wanted = np.asarray(wanted)
    got = np.asarray(got)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(
            got.astype(float), wanted.astype(float), rtol=rtol, atol=atol, equal_nan=True
        )
    else:
        np.testing.assert_array_equal(got, wanted)


def applied(name, params):
    """A function that is one primitive."""

    def f(*args):
        return _core.apply(name, *args, **params)

    return f


RTOL = {"float64": 4e-14, "float32": 5e-6, "float16": 4e-3}


def check(tmp_path, f, *args, rtol=4e-14, atol=0.0, **options):
    """Export, run and compare with the function itself."""
    path = tmp_path / "f.onnx"
    ct.to_onnx(f, *args, path=path, **options)
    wanted = f(*(ct.asarray(a) for a in args))
    wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted]
    got = run(path, *args)
    for mine, theirs in zip(got, wanted, strict=True):
        same(mine, np.asarray(_core.value(theirs)), rtol, atol)
