"""Pages and pictures in a real browser: `make test-browser`."""

import os
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, executable

import cotan as ct
from cotan._src.inspect.nonfinite import recorded_lines

HOSTILE = "<img src=http://x.invalid/a.png onerror=console.error(1)>"

pytestmark = pytest.mark.skipif(executable() is None, reason="there is no Chromium")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(str(tmp_path_factory.mktemp("profile")))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def back():
    def layer(w, b, x):
        return np.tanh(w @ x + b)

    def loss(model, x, scale):
        for w, b in model["layers"]:
            x = layer(w, b, x)
        return np.sum(x * scale) + np.sum(model[HOSTILE] ** 2)

    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(40, 40)), rng.normal(size=(40, 1))) for _ in range(4)]
    model = {"layers": layers, HOSTILE: np.ones(3)}
    with recorded_lines():
        _, back = ct.pullback(loss, model, rng.normal(size=(40, 100)), ct.const(2.0))
    dmodel, _, _ = back(1.0)
    np.asarray(dmodel["layers"][3][0])
    return back


SIZES = {"screen": (1200, 900), "phone": (390, 844)}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_report(browser, back, tmp_path, size, dark):
    report = back.report()
    path = tmp_path / "report.html"
    report.save(path)
    width, height = SIZES[size]
    browser.open(path, width=width, height=height, dark=dark)
    equations, leaves = browser.seen(".eqn"), browser.seen(".leaf")
    forward, backward = back.forward, back.program
    assert len(equations) == len(forward) + len(backward)
    assert min(len(forward), len(backward)) > 10
    assert [text for text, _ in leaves] == [a.path for a in report.arguments]
    assert all(shown for _, shown in [*equations, *leaves])
    listed = [
        line.strip()
        for program in (forward, backward)
        for line in str(program).splitlines()
        if " = " in line and ") {" not in line
    ]
    for (text, _), line in zip(equations, listed, strict=True):
        assert text.startswith(line)
        assert "test_pages.py:" in text.removeprefix(line) or "= literal[" in line
    assert browser.run("document.querySelectorAll('img, script').length") == 0
    assert browser.run("document.documentElement.scrollWidth") <= width, "no sideways scrolling"
    assert contrast(browser) >= 4.5
    keep(browser, f"report-{size}-{'dark' if dark else 'light'}")
    assert browser.faults == []


def test_the_report_in_a_notebook(browser, back, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><title>n</title><body>{back.report()._repr_html_()}")
    browser.open(path)
    ((_, shown),) = browser.seen("iframe")
    assert shown
    keep(browser, "report-notebook")
    assert browser.faults == []


def pictures(back):
    """The notebook pictures that there are, by name."""
    found = {}
    for name, what in {"pullback": back, "program": back.program}.items():
        for kind in ("_repr_html_", "_repr_svg_"):
            if hasattr(what, kind):
                found[f"{name}{kind}".strip("_")] = (what, getattr(what, kind)())
    return found


def test_the_pictures(browser, back, tmp_path):
    found = pictures(back)
    assert len(found) == 4
    for name, (what, markup) in found.items():
        path = tmp_path / f"{name}.html"
        path.write_text(f"<!DOCTYPE html><meta charset=utf-8><title>n</title><body>{markup}")
        browser.open(path)
        program = what.program if name.startswith("pullback") else what
        page = browser.run("document.body.innerText + document.body.textContent")
        for equation in program.equations:
            # A known number is written where it is used.
            shown = equation.primitive == "literal" or equation.primitive in page
            assert shown, f"{name}: {equation}"
        texts = browser.seen("svg text, td, code")
        assert texts, name
        assert all(shown for text, shown in texts if text.strip()), name
        keep(browser, name)
        assert browser.faults == [], name


TEXTS = "h1, h2, p, td, th, dd, dt, code, .tag, .at"

CONTRAST = """Math.min(...[...document.querySelectorAll('TEXTS')]
  .filter(e => e.textContent.trim())
  .map(e => {
    const rgb = c => c.match(/[\\d.]+/g).map(Number);
    const light = c => {
      const [r, g, b] = rgb(c).map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let at = e;
    while (at && (rgb(getComputedStyle(at).backgroundColor)[3] ?? 1) === 0) at = at.parentElement;
    const back = at ? getComputedStyle(at).backgroundColor : 'rgb(255, 255, 255)';
    const [a, b] = [light(getComputedStyle(e).color), light(back)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  }))"""


def contrast(browser):
    """The least contrast of text and what is behind it (WCAG asks for 4.5)."""
    return browser.run(CONTRAST.replace("TEXTS", TEXTS))


def keep(browser, name):
    """Writes a screenshot where `COTAN_SCREENSHOTS` says."""
    if folder := os.environ.get("COTAN_SCREENSHOTS"):
        browser.screenshot(Path(folder) / f"{name}.png")
