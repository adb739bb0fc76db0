"""What is recorded does not leave through files and pickles."""

import io
import pickle

import numpy as np
import pytest

import cotan as ct

WRITERS = {
    "save": lambda x: np.save(io.BytesIO(), x),
    "savez": lambda x: np.savez(io.BytesIO(), x),
    "savez, named": lambda x: np.savez(io.BytesIO(), a=x),
    "savez_compressed": lambda x: np.savez_compressed(io.BytesIO(), a=x),
    "savetxt": lambda x: np.savetxt(io.StringIO(), x),
    "savetxt, list": lambda x: np.savetxt(io.StringIO(), [x[0], x[1]]),
    "save, scalar": lambda x: np.save(io.BytesIO(), x[0]),
    "save, by keyword": lambda x: np.save(io.BytesIO(), arr=x),
    "tofile": lambda x: x.tofile(io.BytesIO()),
    "dump": lambda x: x.dump(io.BytesIO()),
    "dumps": lambda x: x.dumps(),
    "tobytes": lambda x: x.tobytes(),
    "ndarray.tofile": lambda x: np.ndarray.tofile(x, io.BytesIO()),
    "pickle": lambda x: pickle.dumps(x),
    "pickle, inside": lambda x: pickle.dumps({"a": [x[0]]}),
    "pickle, view": lambda x: pickle.dumps(x[1:]),
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_recorded_is_not_written(name):
    write = WRITERS[name]

    def f(x):
        write(x)
        return np.sum(x * x)

    x = np.array([1.5, 2.5])
    with pytest.raises(TypeError, match=r"gradient|descriptor"):
        ct.gradient(f, x)
    with pytest.raises(TypeError):
        ct.prepare(f, x)


@pytest.mark.parametrize("name", [n for n in WRITERS if n not in ("tofile", "ndarray.tofile")])
def test_what_is_constant_is_written(name):
    def f(x):
        WRITERS[name](ct.dropgrad(x))
        return np.sum(x * x)

    assert ct.gradient(f, np.array([1.5, 2.5]))[0].tolist() == [3.0, 5.0]


def test_files_hold_the_values_of_constants():
    binary, text, several = io.BytesIO(), io.StringIO(), io.BytesIO()

    def f(x, c):
        np.save(binary, c)
        np.savetxt(text, [ct.dropgrad(x[0]), c[1]], fmt="%.1f")
        np.savez(several, a=c, n=np.argmax(x))
        return x.sum()

    x = np.array([1.5, 2.5])
    ct.gradient(f, x, ct.const(x))
    assert text.getvalue() == "1.5\n2.5\n"
    binary.seek(0)
    np.testing.assert_array_equal(np.load(binary), x)
    several.seek(0)
    assert np.load(several)["n"] == 1
