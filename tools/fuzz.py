"""Feeds damaged files and texts to everything that cotan parses, and keeps those that break it.

    python tools/fuzz.py [--seconds 60] [--seed 0] [--only load text] [--keep FOLDER]

What is parsed: saved pullbacks and programs (`load`, with and without `mmap`), and the text of
programs (`text`). Good samples are changed at random: bits, bytes, numbers at the ends of their
range, parts moved, repeated and left out. The checksums of a changed file are made right again, or
they alone would be tested. Whatever is accepted is printed, verified by saving it again, and read
again.

A sample may be refused by `ValueError`. Any other exception, the end of the process by a signal,
more than a few seconds, or more than the allowed memory is a finding: the input is written to
FOLDER, and the status is 1. The inputs run in processes of their own, a batch each; the same seed
gives the same inputs.
"""

import argparse
import random
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

import cotan as ct

TOP = Path(__file__).resolve().parents[1]
SAVED = TOP / "tests" / "data" / "saved"
KINDS = ("load", "text")
#: Inputs of one process.
BATCH = 200
#: Seconds of processor time for one input; bytes of memory beyond what the process begins with.
SLOW = 10
MEMORY = 4 << 30
EDGES = (0, 1, 2, 3, 64, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
EDGES_64 = (*EDGES, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
HEADER, ENTRY = 64, 24


def aligned(size: int) -> int:
    """Give the next multiple of 64."""
    return -(-size // 64) * 64


def sections(data: bytes) -> list[tuple[int, int, int]]:
    """Give place of the entry, offset and length of each section that lies inside of the file."""
    (count,) = struct.unpack_from("<I", data, 32)
    found = []
    for k in range(min(count, (len(data) - HEADER) // ENTRY)):
        at = HEADER + ENTRY * k
        offset, length = struct.unpack_from("<QQ", data, at + 8)
        if offset + length <= len(data):
            found.append((at, offset, length))
    return found


def repaired(data: bytes) -> bytes:
    """Make length and checksums of a file right: sections, directory, header."""
    if len(data) < HEADER:
        return data
    out = bytearray(data)
    struct.pack_into("<Q", out, 16, len(out))
    for at, offset, length in sections(data):
        struct.pack_into("<I", out, at + 4, zlib.crc32(out[offset : offset + length]))
    (count,) = struct.unpack_from("<I", out, 32)
    end = HEADER + ENTRY * count
    if end <= len(out):
        struct.pack_into("<I", out, 36, zlib.crc32(out[HEADER:end]))
    struct.pack_into("<I", out, 60, zlib.crc32(out[:60]))
    return bytes(out)


def resized(data: bytes, part: int, body: bytes) -> bytes:
    """Put other bytes in place of a section, and move what follows, its offsets too."""
    entries = sections(data)
    at, offset, length = entries[part]
    before, after = aligned(offset + length), aligned(offset + len(body))
    out = bytearray(data[:offset] + body + bytes(after - offset - len(body)) + data[before:])
    struct.pack_into("<Q", out, at + 16, len(body))
    for other, place, _ in entries:
        if place > offset:
            struct.pack_into("<Q", out, other + 8, place + after - before)
    (end,) = struct.unpack_from("<Q", data, 24)
    struct.pack_into("<Q", out, 24, end + (after - before if end > offset + length else 0))
    if part == max(range(len(entries)), key=lambda k: entries[k][1]):
        struct.pack_into("<Q", out, 24, offset + len(body))
    return bytes(out)


def mutated_bytes(data: bytes, draw: random.Random) -> bytes:
    """Change some bytes, numbers or stretches."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        if not out:
            return bytes(out)
        at = draw.randrange(len(out))
        what = draw.randrange(7)
        if what == 0:
            out[at] ^= 1 << draw.randrange(8)
        elif what == 1:
            out[at] = draw.randrange(256)
        elif what == 2:
            struct.pack_into("<I", out, min(at, max(0, len(out) - 4)), draw.choice(EDGES)) if len(
                out
            ) >= 4 else None
        elif what == 3 and len(out) >= 8:
            struct.pack_into("<Q", out, min(at, len(out) - 8), draw.choice(EDGES_64))
        elif what == 4:
            del out[at : at + draw.choice((1, 4, 8, 24))]
        elif what == 5:
            stretch = out[at : at + draw.choice((1, 4, 8, 40))]
            where = draw.randrange(len(out) + 1)
            out[where:where] = stretch
        else:
            number = out[at : at + 4]
            where = draw.randrange(len(out))
            out[where : where + 4] = number
    return bytes(out)


def mutated_file(data: bytes, draw: random.Random) -> bytes:
    """Change a saved file: mostly inside of a section, and with checksums that fit."""
    if draw.random() < 0.1:
        return mutated_bytes(data, draw)
    if draw.random() < 0.15:
        return repaired(mutated_bytes(data, draw))
    entries = sections(data)
    part = draw.randrange(len(entries))
    _, offset, length = entries[part]
    body = mutated_bytes(data[offset : offset + length], draw)
    return repaired(resized(data, part, body))


WORDS = (
    *(
        "%0",
        "%1",
        "%99999999",
        "f64[3]",
        "f64[]",
        "i64[2]",
        "bool[0]",
        "c128[1,1]",
        "f64[99999999999]",
    ),
    *("f64[3,3,3,3]", "add(", "mul", "sin(%x)", "return", "program(", "{", "}", "(", ")", "[", "]"),
    *(",", "=", "broadcast[shape=(3,)]", "-1", "1e999", "nan", "inf", "18446744073709551616"),
    *('"', "\\", "#", "\x00", "é", "∂", "\u2028", "((((((((((((((((", "literal[value=1.0]()"),
)


def mutated_text(text: str, draw: random.Random) -> str:
    """Change the text of a program: characters, words, lines."""
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(text) + 1)
        what = draw.randrange(6)
        if what == 0:
            text = text[:at] + chr(draw.randrange(32, 127)) + text[at + 1 :]
        elif what == 1:
            text = text[:at] + text[at + draw.choice((1, 2, 5, 20)) :]
        elif what == 2:
            text = text[:at] + draw.choice(WORDS) + text[at:]
        elif what == 3:
            text = text[:at] + draw.choice(WORDS) + text[at + draw.randrange(8) :]
        elif what == 4:
            start = draw.randrange(len(text) + 1)
            text = text[:at] + text[start : start + draw.randrange(40)] + text[at:]
        else:
            lines = text.split("\n")
            one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            text = "\n".join(lines)
    return text


def corpus(kind: str) -> list[bytes]:
    """Give good samples: saved files of the tests, and programs that are made here."""
    files = [path.read_bytes() for path in sorted(SAVED.glob("*.cotan"))]
    if kind == "load":
        return files
    programs = [ct.load(path) for path in sorted(SAVED.glob("*.cotan"))]
    texts = [str(p if isinstance(p, ct.Program) else p.program) for p in programs]
    a = np.linspace(0.1, 1.0, 6).reshape(2, 3)
    functions = [
        lambda x: np.sum(np.sin(x) * np.exp(-x)),
        lambda x: np.linalg.norm(x @ x.T, axis=1) + x[0, 1:].sum(),
        lambda x: np.where(x > 0.5, np.log(x), 0)[::-1],
        lambda x: ct.scan(lambda c, t: (c + t, c * t), x[0], x)[1],
    ]
    texts += [str(ct.trace(f, a)) for f in functions]
    return [text.encode() for text in texts]


def inputs(kind: str, seed: int, batch: int) -> list[bytes]:
    """Give the inputs of a batch."""
    draw = random.Random(f"{seed} {kind} {batch}")  # noqa: S311
    samples = corpus(kind)
    found = []
    for _ in range(BATCH):
        sample = draw.choice(samples)
        if kind == "load":
            found.append(mutated_file(sample, draw))
        else:
            text = mutated_text(sample.decode(), draw)
            found.append(text.encode("utf-8", "surrogatepass"))
    return found


def try_load(data: bytes, folder: Path) -> bool:
    """Load a file; what is accepted is printed, saved and loaded again. Give whether it was."""
    path = folder / "input.cotan"
    path.write_bytes(data)
    accepted = False
    for mmap in (False, True):
        try:
            found = ct.load(path, mmap=mmap)
        except ValueError:
            continue
        accepted = True
        text = str(found if isinstance(found, ct.Program) else found.program)
        again = folder / "again.cotan"
        found.save(again)
        other = ct.load(again)
        if str(other if isinstance(other, ct.Program) else other.program) != text:
            raise AssertionError("it is another program after it was saved and loaded")
        del found
    return accepted


def try_text(data: bytes, _folder: Path) -> bool:
    """Parse a program; what is accepted is printed and parsed again. Give whether it was."""
    try:
        program = ct.Program.parse(data.decode("utf-8", "replace"))
    except ValueError:
        return False
    text = str(program)
    if str(ct.Program.parse(text)) != text:
        raise AssertionError("its text is that of another program")
    return True


TRY = {"load": try_load, "text": try_text}


def limit_memory() -> None:
    """Bound the memory of this process, where the system can."""
    try:
        import resource  # noqa: PLC0415
    except ImportError:
        return
    used = 0
    for line in (
        Path("/proc/self/status").read_text().splitlines() if sys.platform == "linux" else ()
    ):
        if line.startswith("VmSize"):
            used = int(line.split()[1]) << 10
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def worker(kind: str, seed: int, batch: int, only: int | None) -> None:
    """Run the inputs of a batch, and say which is next before each."""
    todo = inputs(kind, seed, batch)
    limit_memory()
    accepted = 0
    with tempfile.TemporaryDirectory() as folder:
        for k, data in enumerate(todo):
            if only is not None and k != only:
                continue
            print(k, flush=True)
            start = time.process_time()
            accepted += TRY[kind](data, Path(folder))
            took = time.process_time() - start
            if took > SLOW:
                raise AssertionError(f"it took {took:.0f} s")
    print(f"accepted {accepted}", flush=True)


def run(kind: str, seed: int, batch: int) -> tuple[int, tuple[int, str] | None]:
    """Run a batch in a process; give how many were accepted, and the first that breaks it."""
    command = [
        sys.executable,
        __file__,
        "--worker",
        kind,
        "--seed",
        str(seed),
        "--batch",
        str(batch),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SLOW * 30
        )
        out, why = done.stdout, done.stderr.strip().rpartition("\n")[2]
        status = done.returncode
    except subprocess.TimeoutExpired as error:
        out = (error.stdout or b"").decode()
        why, status = "it does not end", -1
    lines = out.split("\n")
    if status == 0:
        return int(lines[-2].split()[1]), None
    numbers = [int(line) for line in lines if line.isdigit()]
    if not numbers:
        raise RuntimeError(f"no input was tried: {why}")
    return 0, (numbers[-1], why if status > 0 else f"status {status}: {why}")


def main() -> int:
    """Run; the status is 1 if there are findings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), metavar="FOLDER")
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.seed, options.batch, None)
        return 0
    findings = tried = accepted = batch = 0
    end = time.monotonic() + options.seconds
    while batch == 0 or time.monotonic() < end:
        for kind in options.only:
            good, found = run(kind, options.seed, batch)
            accepted += good
            tried += BATCH if found is None else found[0] + 1
            if found is not None:
                findings += 1
                at, why = found
                options.keep.mkdir(parents=True, exist_ok=True)
                path = options.keep / f"{kind}-{options.seed}-{batch}-{at}"
                path.write_bytes(inputs(kind, options.seed, batch)[at])
                print(f"{path}: {why}", flush=True)
        batch += 1
    print(f"{tried} inputs, {accepted} accepted, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
