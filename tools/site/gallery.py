"""The gallery: runs the examples that draw a picture, and shows picture and program."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]
EXAMPLES = TOP / "examples"
KEPT = TOP / "target" / "site" / "gallery"
ITEM = re.compile(r"^- \[(?P<name>\w+)\]\(\.\./\.\./examples/(?P<file>\w+)\.py\): ", re.MULTILINE)


def pictures() -> dict[str, Path]:
    """Give the pictures of the examples, by their place in the site; run what has changed."""
    if os.environ.get("COTAN_SITE_EXAMPLES") == "0":
        return {}
    found = {}
    for script in sorted(EXAMPLES.glob("*.py")):
        if '"--out"' in script.read_text(encoding="utf-8"):
            found[f"tutorial/gallery/{script.stem}.png"] = _run(script)
    return found


def _run(script: Path) -> Path:
    digest = hashlib.sha256(script.read_bytes()).hexdigest()[:16]
    picture = KEPT / f"{script.stem}-{digest}.png"
    if not picture.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        made = picture.with_suffix(".new.png")
        command = [sys.executable, str(script), "--out", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{script.name} failed:\n{done.stderr[-2000:]}")
        made.replace(picture)
    return picture


def expand(markdown: str) -> str:
    """Give each example of the list a section with its picture and its text."""
    listed, mark, rest = markdown.partition("\n## ")
    head, *items = re.split(r"(?=^- \[)", listed, flags=re.MULTILINE)
    there = pictures()
    out = [head]
    for item in items:
        found = ITEM.match(item)
        if found is None:
            raise ValueError(f"not an example: {item!r}")
        name, file = found["name"], found["file"]
        text = " ".join(item[found.end() :].split())
        out += [f"## {name}", "", text[0].upper() + text[1:], ""]
        if f"tutorial/gallery/{file}.png" in there:
            out += [f"![What {file}.py draws](gallery/{file}.png)", ""]
        code = (EXAMPLES / f"{file}.py").read_text(encoding="utf-8")
        head = f"<summary><code>examples/{file}.py</code>, {code.count(chr(10))} lines</summary>"
        out += [
            f'<details markdown="1">{head}',
            *("", "```python", code.rstrip(), "```", "", "</details>", ""),
        ]
    return "\n".join(out) + mark + rest
