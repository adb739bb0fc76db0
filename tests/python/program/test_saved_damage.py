"""Saved files that are damaged, or that somebody made up: an error, never a wrong value."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_saved import CASES, rows

import cotan as ct


def contents_of(name, folder):
    path = folder / "file"
    if name == "program":
        ct.trace(lambda x: np.sum(np.exp(x) * rows(3)), rows(3)).save(path)
    else:
        CASES[name]()[1].save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    names = ["product", "objects", "keys", "branches", "index", "program"]
    return {name: contents_of(name, folder) for name in names}


def seal(contents):
    """Give the file with checksums that fit what is in it."""
    out = bytearray(contents)
    (count,) = struct.unpack_from("<I", out, 32)
    count = min(count, (len(out) - 64) // 24)
    for i in range(count):
        offset, length = struct.unpack_from("<QQ", out, 64 + 24 * i + 8)
        if offset + length <= len(out):
            struct.pack_into("<I", out, 68 + 24 * i, zlib.crc32(out[offset : offset + length]))
    struct.pack_into("<I", out, 36, zlib.crc32(out[64 : 64 + 24 * count]))
    struct.pack_into("<I", out, 60, zlib.crc32(out[:60]))
    return bytes(out)


def test_seal_is_what_is_written(files):
    for contents in files.values():
        assert seal(contents) == contents


def test_every_flipped_bit_is_an_error(files, tmp_path):
    contents = files["objects"]
    path = tmp_path / "file"
    generator = np.random.default_rng(1)
    for at in range(len(contents)):
        bit = 1 << int(generator.integers(8))
        damaged = contents[:at] + bytes([contents[at] ^ bit]) + contents[at + 1 :]
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not a valid cotan file"):
            ct.load(path, mmap=at % 2 == 0)


@settings(max_examples=150)
@given(data=st.data())
def test_lengths(files, data, tmp_path_factory):
    contents = files[data.draw(st.sampled_from(sorted(files)))]
    path = tmp_path_factory.mktemp("damage") / "file"
    if data.draw(st.booleans()):
        path.write_bytes(contents[: data.draw(st.integers(0, len(contents) - 1))])
    else:
        path.write_bytes(contents + data.draw(st.binary(min_size=1, max_size=200)))
    with pytest.raises(ValueError, match="not a valid cotan file"):
        ct.load(path, mmap=data.draw(st.booleans()))


NUMBERS = [0, 1, 2, 7, 0x7F, 0xFF, 1 << 16, (1 << 31) - 1, (1 << 32) - 1, 1 << 40, (1 << 64) - 1]


@settings(max_examples=600)
@given(data=st.data())
def test_rewritten_under_fitting_checksums(files, data, tmp_path_factory):
    """An error that says so, or something that is well formed and can be applied."""
    contents = bytearray(files[data.draw(st.sampled_from(sorted(files)))])
    for _ in range(data.draw(st.integers(1, 3))):
        size = data.draw(st.sampled_from([1, 4, 8]))
        at = data.draw(st.integers(8, len(contents) - size))
        number = data.draw(st.sampled_from(NUMBERS) | st.integers(0, 255))
        contents[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
    mmap = data.draw(st.booleans())
    path = tmp_path_factory.mktemp("damage") / "file"
    path.write_bytes(seal(contents))
    try:
        loaded = ct.load(path, mmap=mmap)
    except (ValueError, RecursionError):
        return
    program = loaded if isinstance(loaded, ct.Program) else loaded.program
    # Without the comments, which say what is bound.
    parsed = ct.Program.parse(str(program))
    assert str(ct.Program.parse(str(parsed))) == str(parsed)
    assert len(parsed.equations) == len(program.equations)
    if isinstance(loaded, ct.Pullback):
        try:
            cotangents = loaded(None)
        except (ValueError, TypeError):
            return
        assert isinstance(cotangents, (tuple, ct.Array)) or cotangents is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(
            st.sampled_from(["list", "tuple", "dict", "object", "other", "back"]), inner, inner
        )
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(
    key=st.sampled_from(["results", "arguments", "leaves", "active", "asked", "names", "bare"]),
    value=JSON,
)
def test_any_outline(key, value):
    _, back = CASES["dict"]()
    _, (head, blobs, outline) = back.__reduce_ex__(5)
    import json

    from cotan import _core
    from cotan._src.program import serialization

    told = json.loads(serialization.portable(outline))
    told[key] = value
    try:
        again = _core.restore_pullback(
            head, blobs, serialization.outline(json.dumps(told).encode())
        )
    except (ValueError, RecursionError) as error:
        assert "not a valid pullback" in str(error)
        return
    again(None)


def test_deep_nesting_in_a_file(tmp_path):
    from cotan._src.program import serialization

    for depth in (900, 2000, 100_000):
        deep = b'["list",[' * depth + b"0" + b"]]" * depth
        told = b'{"results":0,"arguments":[' + deep + b"]}"
        try:
            serialization.outline(told)
        except ValueError as error:
            assert "not a valid pullback" in str(error)
