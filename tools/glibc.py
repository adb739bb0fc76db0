"""Says which version of the C library a wheel's modules ask for, and which symbols ask for it.

    python tools/glibc.py [--at-most 2.28] FILE...

FILE is a wheel or a shared library of ELF. With `--at-most`, the status is 1 if one asks for more.
The version sections of the file are read here, so that no binutils are needed.
"""

import argparse
import re
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

Version = tuple[int, ...]


class NotElfError(ValueError):
    """The bytes are no 64-bit little-endian ELF file."""


def needed(data: bytes) -> dict[str, Version]:
    """Give the symbols that a shared library takes from glibc, with the version each asks for."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotElfError("no 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * k) for k in range(count)]
    by_type = {section[1]: section for section in sections}
    # SHT_DYNSYM, SHT_GNU_verneed, SHT_GNU_versym
    if not {11, 0x6FFFFFFE, 0x6FFFFFFF} <= by_type.keys():
        return {}
    symbols, requirements, numbers = by_type[11], by_type[0x6FFFFFFE], by_type[0x6FFFFFFF]
    names = sections[symbols[6]][4]

    def text(at: int) -> str:
        return data[at : data.index(0, at)].decode()

    versions = dict(_versions(data, requirements[4], sections[requirements[6]][4], text))
    found = {}
    for k in range(symbols[5] // symbols[9]):
        name, _, _, section = struct.unpack_from("<IBBH", data, symbols[4] + symbols[9] * k)
        (number,) = struct.unpack_from("<H", data, numbers[4] + 2 * k)
        version = versions.get(number & 0x7FFF)
        if section == 0 and version is not None:
            found[text(names + name)] = version
    return found


def _versions(
    data: bytes, at: int, strings: int, text: Callable[[int], str]
) -> Iterator[tuple[int, Version]]:
    """Give the numbers by which symbols name versions of glibc."""
    while True:
        _, count, _, first, following = struct.unpack_from("<HHIII", data, at)
        entry = at + first
        for _ in range(count):
            _, _, number, name, after = struct.unpack_from("<IHHII", data, entry)
            part = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)*)", text(strings + name))
            if part:
                yield number, tuple(map(int, part[1].split(".")))
            entry += after
        if not following:
            return
        at += following


def libraries(path: Path) -> dict[str, bytes]:
    """Give the shared libraries in a wheel, or the file itself."""
    if path.suffix != ".whl":
        return {path.name: path.read_bytes()}
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if name.endswith(".so")}


def written(version: Version) -> str:
    """Write a version with points."""
    return ".".join(map(str, version))


def main(arguments: list[str] | None = None) -> int:
    """Run; the status is 1 if a file asks for more than it may, or holds no library."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--at-most", metavar="VERSION", help="the newest that is allowed")
    options = parser.parse_args(arguments)
    limit = tuple(map(int, options.at_most.split("."))) if options.at_most else None
    status = 0
    for path in options.files:
        found = libraries(path)
        if not found:
            print(f"{path}: no shared library in it", file=sys.stderr)
            status = 1
        for name, data in found.items():
            symbols = needed(data)
            highest = max(symbols.values(), default=(0,))
            print(f"{name}: glibc {written(highest)}")
            bound = limit or (*highest[:-1], highest[-1] - 1)
            above = sorted((v, s) for s, v in symbols.items() if v > bound)
            for version, symbol in above:
                print(f"    {symbol} of {written(version)}")
            if limit is not None and above:
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
