"""`tools/fuzz.py` finds what it looks for, and finds nothing in what is parsed."""

import importlib.util
import os
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import cotan as ct

TOP = Path(__file__).parents[3]
SCRIPT = TOP / "tools" / "fuzz.py"

spec = importlib.util.spec_from_file_location("fuzz", SCRIPT)
fuzz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fuzz)
FILES = [p.read_bytes() for p in sorted(fuzz.SAVED.glob("*.cotan"))]


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_what_is_parsed_refuses_by_value_errors(kind, tmp_path):
    """The first batch; `make fuzz` goes on."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--seconds", "0", "--only", kind, "--keep", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tried, accepted = (int(part.split()[0]) for part in done.stdout.split(", ")[:2])
    assert tried == fuzz.BATCH
    # Some are accepted, or the changes would only meet the checks of the envelope.
    assert 0 < accepted < tried


def test_the_same_seed_gives_the_same_inputs():
    assert fuzz.inputs("load", 3, 1)[:20] == fuzz.inputs("load", 3, 1)[:20]
    assert fuzz.inputs("load", 3, 1)[:20] != fuzz.inputs("load", 4, 1)[:20]


@pytest.mark.parametrize("data", FILES, ids=range(len(FILES)))
def test_repaired_files_are_files(data, tmp_path):
    """What was not changed is as it was; a section that was put in place again, too."""
    assert fuzz.repaired(data) == data
    for part, (_, offset, length) in enumerate(fuzz.sections(data)):
        assert fuzz.repaired(fuzz.resized(data, part, data[offset : offset + length])) == data


def test_a_changed_file_has_checksums_that_fit():
    draw = random.Random(0)
    fits = 0
    for _ in range(50):
        data = fuzz.mutated_file(FILES[0], draw)
        (header,) = struct.unpack_from("<I", data, 60)
        fits += header == zlib.crc32(data[:60])
    assert fits > 35


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("raise KeyError('odd')", "KeyError: 'odd'"),
        ("os.kill(os.getpid(), 11)", "status -11"),
        ("bytearray(8 << 30)", "MemoryError"),
    ],
)
def test_what_breaks_is_found_and_kept(line, why, tmp_path):
    if "bytearray" in line and sys.platform != "linux":
        pytest.skip("memory is bounded on Linux")
    text = SCRIPT.read_text().replace("\nimport sys\n", "\nimport os\nimport sys\n", 1)
    text = text.replace(
        'TRY = {"load": try_load', f'def planted(*_):\n    {line}\n\nTRY = {{"load": planted'
    )
    text = text.replace("Path(__file__).resolve().parents[1]", f"Path({str(TOP)!r})")
    script = tmp_path / "planted.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, str(script), "--seconds", "0", "--only", "load", "--keep", "kept"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(ct.__file__).parents[1])},
    )
    assert done.returncode == 1, done.stderr
    assert why in done.stdout
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.read_bytes() == fuzz.inputs("load", 0, 0)[0]
    assert "1 inputs, 0 accepted, 1 findings" in done.stdout
