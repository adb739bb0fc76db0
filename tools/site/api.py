"""Writes the reference of all public Python names as Markdown pages, from the imported package.

Half of the names live in the compiled module, and methods are attached when the package is
imported, so that the objects are asked and not the sources.
"""

import importlib
import inspect
import pkgutil
import re
import tomllib
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docstrings

import cotan
from cotan import _core

TABLE = Path(__file__).with_name("api.toml")
FOLDER = "reference/api"
WIDTH = 76
#: Methods that are there to say that something is not done, or is that of a Python number.
REFUSING = re.compile("Refuse: |What `")

PRIMITIVES: dict[str, str] = {
    name: entry["name"]
    for entry in _core.table()
    for name in (entry["name"], f"{entry['name']}_to")
    if name in cotan.__all__
}


@dataclass(frozen=True)
class Page:
    """A page of the reference: names of one module, and where to read on."""

    file: str
    title: str
    text: str
    module: types.ModuleType
    names: tuple[str, ...]
    see: tuple[str, ...]

    @property
    def path(self) -> str:
        """Its place in the site's sources."""
        return f"{FOLDER}/{self.file}.md"

    def short(self, name: str) -> str:
        """Give a name as a program writes it that says `import cotan as ct`."""
        return f"{self.module.__name__.replace('cotan', 'ct', 1)}.{name}"


def pages() -> list[Page]:
    """Give the pages in order; `ValueError` when a public name is on none of them, or on two."""
    found = [_page(entry) for entry in tomllib.loads(TABLE.read_text(encoding="utf-8"))["page"]]
    listed = [name for page in found if page.module is cotan for name in page.names]
    twice = sorted({name for name in listed if listed.count(name) > 1})
    missing = sorted({*cotan.__all__} ^ {*listed})
    if missing or twice:
        raise ValueError(f"{TABLE.name}: on no page, or not public: {missing}; twice: {twice}")
    return found


def _page(entry: dict[str, Any]) -> Page:
    see = tuple(entry.get("see", ()))
    if "module" in entry:
        module = importlib.import_module(entry["module"])
        doc = inspect.getdoc(module) or ""
        return Page(entry["file"], entry["module"], doc, module, tuple(module.__all__), see)
    names = list(entry["names"])
    if entry.get("primitives"):
        placed = [name for page in tomllib.loads(TABLE.read_text())["page"]
                  for name in page.get("names", ())]  # fmt: skip
        names += [name for name in PRIMITIVES if name not in placed]
    return Page(entry["file"], entry["title"], entry["text"], cotan, tuple(names), see)


def anchors() -> dict[str, str]:
    """Give where each name is documented: `cotan.nn.gelu` and `cotan.Array.sum` to an address."""
    found = {}
    for page in pages():
        if page.module is not cotan:
            found[page.module.__name__] = page.path
        for name in page.names:
            full = f"{page.module.__name__}.{name}"
            found[full] = f"{page.path}#{_anchor(full)}"
            value = getattr(page.module, name)
            if inspect.isclass(value):
                for member, _, _ in _members(value):
                    found[f"{full}.{member}"] = f"{page.path}#{full}.{member}"
    return found


def write(page: Page) -> str:
    """Give the text of a page."""
    out = [f"# {page.title}", "", docstrings.markdown(page.text)]
    if page.see:
        links = ", ".join(f"[{_title(path)}](../../{path})" for path in page.see)
        out += [f"See also: {links}.", ""]
    out += ['<div class="names" markdown>', "", "| name | |", "| --- | --- |"]
    for name in page.names:
        full = f"{page.module.__name__}.{name}"
        text = docstrings.summary(_doc(page.module, name)).replace("|", r"\|")
        out.append(f"| [`{name}`](#{_anchor(full)}) | {text} |")
    out += ["", "</div>", ""]
    for name in page.names:
        out += _entry(page, name)
    return "\n".join(out) + "\n"


def write_namespaces() -> str:
    """Give the page of the modules that stand for NumPy, SciPy and `math`."""
    out = [
        "# NumPy, SciPy and math",
        "",
        "These modules are those of NumPy, SciPy and Python, with functions that accept `Array`s",
        "even where [lifting](../../explanation/lifting.md) is off. Ufuncs, such as `np.sin` and",
        "`scipy.special.erf`, do so by themselves and are the same objects. The pages",
        "[Coverage](../coverage.md) and [SciPy](../scipy.md) say which functions are",
        "differentiated, and how.",
        "",
        "| module | stands for | functions of its own |",
        "| --- | --- | --- |",
    ]
    names = ["cotan.math", "cotan.numpy"]
    scipy = importlib.import_module("cotan.scipy")
    names += [module.name for module in pkgutil.walk_packages(scipy.__path__, "cotan.scipy.")]
    lists = []
    for name in sorted(names):
        module, original = (importlib.import_module(n) for n in (name, name.removeprefix("cotan.")))
        own = [n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n))
               and getattr(module, n) is not getattr(original, n, None)]  # fmt: skip
        count = f"[{len(own)}](#{name})" if own else "0"
        out.append(f"| `{name}` | `{original.__name__}` | {count} |")
        if own:
            lists += [
                f"## `{name}` {{ #{name} }}",
                "",
                docstrings.markdown(module.__doc__ or ""),
                "",
            ]
            lists += [", ".join(f"`{n}`" for n in own) + ".", ""]
    return "\n".join([*out, "", *lists])


def _anchor(name: str) -> str:
    """Give the anchor of a name; underscores at both ends would be emphasis."""
    return name.replace("__", "")


def _title(path: str) -> str:
    text = (Path(__file__).parents[2] / "docs" / path).read_text(encoding="utf-8")
    return re.findall(r"^# (.*)", text, re.MULTILINE)[0]


def _doc(module: types.ModuleType, name: str) -> str:
    if name == "__version__":
        return "The version of the package, a string."
    if name == "nestlevel":
        return inspect.getdoc(module.nestlevel) or "How many derivatives are being taken."
    return inspect.getdoc(getattr(module, name)) or ""


def _entry(page: Page, name: str) -> Iterator[str]:
    value = getattr(page.module, name)
    full = f"{page.module.__name__}.{name}"
    label = _anchor(page.short(name) if page.module is cotan else name)
    yield from (f"## `{page.short(name)}` {{ #{_anchor(full)} data-toc-label='{label}' }}", "")
    if isinstance(value, type) and issubclass(value, BaseException):
        bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
        yield from (f"*An error, which is a {bases}.*", "")
    elif callable(value):
        yield from _signature(page.short(name), value)
    yield docstrings.markdown(_doc(page.module, name))
    if page.module is cotan and name in PRIMITIVES:
        primitive = PRIMITIVES[name]
        yield from (f"Derivative, dtypes, cost: [`{primitive}`](../primitives.md#{primitive}).", "")
    if inspect.isclass(value):
        yield from _class(page, name, value)


def _class(page: Page, name: str, cls: type) -> Iterator[str]:
    full, refused = f"{page.module.__name__}.{name}", []
    for member, value, doc in _members(cls):
        if REFUSING.match(doc):
            refused.append(f"`{member}`")
            yield from (f'<span id="{full}.{member}"></span>', "")
            continue
        label = f".{member}"
        yield from (f"### `{name}.{member}` {{ #{full}.{member} data-toc-label='{label}' }}", "")
        if callable(value):
            yield from _signature(member, value)
        yield docstrings.markdown(doc)
    if refused:
        yield from (
            "Refused with an error that says what to write, or those of a Python number:",
            f"{', '.join(refused)}.",
            "",
        )


def _members(cls: type) -> list[tuple[str, Any, str]]:
    """Give the public members of a class that are documented, also those of bases of ours."""
    found = {}
    for base in cls.__mro__:
        if not base.__module__.startswith("cotan"):
            continue
        for name, value in vars(base).items():
            function = getattr(value, "__func__", value)
            is_member = callable(function) or inspect.isdatadescriptor(value)
            is_cached = type(value).__name__ == "cached_property"
            doc = inspect.getdoc(function) or ""
            is_field = type(value).__name__ in {"member_descriptor", "_tuplegetter"}
            if not name.startswith("_") and (is_member or is_cached) and doc and not is_field:
                found.setdefault(name, (name, function, doc))
    return list(found.values())


def _signature(shown: str, value: Any) -> Iterator[str]:
    text = signature(shown, value)
    if text is not None:
        yield from ("```python", text, "```", "")


def signature(shown: str, value: Any) -> str | None:
    """Give the call of a function without types, in lines of at most `WIDTH` characters."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    parameters = [
        p.replace(annotation=inspect.Parameter.empty, default=_default(p.default))
        for p in found.parameters.values()
        if p.name != "self"
    ]
    if isinstance(value, type) and not parameters:
        return None  # what makes one is in its text
    inside = str(inspect.Signature(parameters))[1:-1]
    whole = f"{shown}({inside})"
    if len(whole) <= WIDTH:
        return whole
    lines, line = [], "   "
    for part in re.split(r", (?![^(\[{]*[)\]}])", inside):
        if len(line) + len(part) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {part},"
    return "\n".join([f"{shown}(", *lines, line, ")"])


class _Shown:
    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(value: Any) -> Any:
    """Give what is shown of a default: `...` where it is an object without a spelling."""
    if value is inspect.Parameter.empty:
        return value
    text = repr(value)
    if isinstance(value, type):
        module = "" if value.__module__ == "builtins" else f"{value.__module__}."
        return _Shown(f"{module}{value.__name__}".replace("numpy.", "np."))
    return _Shown("...") if " at 0x" in text or text.startswith("<") else value
