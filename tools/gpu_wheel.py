"""Makes the wheel `cotan-wgpu` of a wheel of cotan that was built with support for GPUs.

    python tools/gpu_wheel.py --out dist FILE

FILE is what `maturin build --features wgpu` wrote. The new wheel has its compiled module alone, in
the package `cotan_wgpu`, and asks for cotan of the same version, which imports the module from
there (`python/cotan/_src/runtime/compiled_module.py`).
"""

import argparse
import base64
import hashlib
import zipfile
from email import message_from_bytes
from pathlib import Path

# What is said of both wheels.
KEPT = ("License-Expression", "License-File", "Requires-Python")
ABOUT = '''"""The compiled module of cotan with support for GPUs; cotan imports it from here."""
'''


def record(files: dict[str, bytes], name: str) -> str:
    """Give the list of files of a wheel with their hashes, which is a file of the wheel itself."""
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    return "\n".join([*lines, f"{name},,", ""])


def extra_wheel(source: Path, out: Path) -> Path:
    """Write the wheel for a wheel of cotan into a folder; its path."""
    _, version, tags = source.stem.split("-", 2)
    info = f"cotan_wgpu-{version}.dist-info"
    with zipfile.ZipFile(source) as wheel:
        names = wheel.namelist()
        (module,) = (n for n in names if n.startswith("cotan/_core.") and not n.endswith(".pyi"))
        own = f"cotan-{version}.dist-info"
        about = message_from_bytes(wheel.read(f"{own}/METADATA"))
        more = [n for n in names if n.startswith((f"{own}/licenses/", f"{own}/sboms/"))]
        metadata = [
            "Metadata-Version: 2.4",
            "Name: cotan-wgpu",
            f"Version: {version}",
            "Summary: GPUs for cotan, through wgpu: Vulkan, Metal and Direct3D 12",
            *(f"{key}: {value}" for key, value in about.items() if key in KEPT),
            f"Requires-Dist: cotan=={version}",
            "",
        ]
        files = {
            "cotan_wgpu/__init__.py": ABOUT.encode(),
            f"cotan_wgpu/{module.removeprefix('cotan/')}": wheel.read(module),
            f"{info}/METADATA": "\n".join(metadata).encode(),
            f"{info}/WHEEL": wheel.read(f"{own}/WHEEL"),
            **{n.replace(own, info): wheel.read(n) for n in more},
        }
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"cotan_wgpu-{version}-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    return path


def main() -> None:
    """Make the wheel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("file", type=Path, metavar="FILE")
    options = parser.parse_args()
    path = extra_wheel(options.file, options.out)
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
