"""Builds the documentation's site into a folder for its version, beside those of other versions.

    python tools/site/build.py --out build/site --version dev

The folder holds `dev/`, `versions.json` (which the selector of versions on each page reads) and an
`index.html` that leads to the newest release, or to `dev` where there is none.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
RUST = TOP / "target" / "doc"
REDIRECT = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>cotan</title>
<meta http-equiv="refresh" content="0; url={there}/"></head>
<body><p>The documentation is in <a href="{there}/">{there}</a>.</p></body></html>
"""


def build(out: Path, version: str, *, url: str = "", rust: bool = False) -> Path:
    """Build one version and list all that are there; the folder of the version."""
    there = out / version
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "COTAN_SITE_RUST": str(int(rust))}
    if url:
        environment["COTAN_SITE_URL"] = f"{url.rstrip('/')}/{version}/"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as fresh:
        made = Path(fresh) / "site"
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(made)]
        subprocess.run(
            [*command, "--config-file", str(TOP / "mkdocs.yml")], env=environment, check=True
        )
        if rust:
            shutil.copytree(RUST, made / "rust")
        shutil.rmtree(there, ignore_errors=True)
        made.rename(there)
    write_versions(out)
    return there


def write_versions(out: Path) -> None:
    """List the versions whose folders are there, and lead visitors to the newest release."""
    names = sorted(
        (p.name for p in out.iterdir() if (p / "index.html").exists()), key=_order, reverse=True
    )
    releases = [name for name in names if _is_release(name)]
    newest = (releases or names)[0]
    rows = [
        {"version": name, "title": name, "aliases": ["latest"] if name == newest else []}
        for name in names
    ]
    (out / "versions.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    (out / "index.html").write_text(REDIRECT.format(there=newest), encoding="utf-8")


def _is_release(name: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)*", name) is not None


def _order(name: str) -> tuple[bool, list[int], str]:
    """Give the key by which 0.10 is newer than 0.9, and `dev` newer than both."""
    numbers = [int(n) for n in name.split(".")] if _is_release(name) else []
    return (not numbers, numbers, name)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=TOP / "build" / "site")
    parser.add_argument("--version", default="dev", help="the folder, and the name in the selector")
    parser.add_argument("--url", default="", help="where `--out` will be reached, for cards")
    parser.add_argument("--rust", action="store_true", help="copy the pages of `make docs`")
    args = parser.parse_args()
    if args.rust and not (RUST / "cotan" / "index.html").exists():
        parser.error(f"{RUST.relative_to(TOP)} has no pages; run `make docs` first")
    print(build(args.out, args.version, url=args.url, rust=args.rust))


if __name__ == "__main__":
    main()
