"""The site in a real browser, at two widths: `make test-browser`."""

import http.server
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from browser import Browser, executable

sys.path.append(str(Path(__file__).parents[2] / "tools" / "site"))

import build

# Whichever test comes first builds the site, and runs the examples where they have changed.
pytestmark = [
    pytest.mark.skipif(executable() is None, reason="there is no Chromium"),
    pytest.mark.timeout(600),
]

PAGES = {
    "start": "",
    "quickstart": "tutorial/quickstart/",
    "examples": "tutorial/examples/",
    "which": "how_to/which_function/",
    "curve": "how_to/fit_a_curve/",
    "jax": "how_to/coming_from_jax/",
    "names": "reference/api/",
    "derivatives": "reference/api/derivatives/",
    "array": "reference/api/array/",
    "nn": "reference/api/nn/",
    "primitives": "reference/primitives/",
    "coverage": "reference/coverage/",
    "scipy": "reference/scipy/",
    "benchmarks": "reference/benchmarks/",
    "lazy": "explanation/lazy_cotangents/",
    "architecture": "architecture/",
    "design": "design/reverse-pass/",
    "contributing": "CONTRIBUTING/",
    "changes": "CHANGELOG/",
}
WIDTHS = {"screen": (1280, 900), "phone": (390, 844)}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Where a built site is served on this machine."""
    pytest.importorskip("material")
    out = tmp_path_factory.mktemp("site")
    build.build(out, "dev")
    (out / "0.1").mkdir()
    (out / "0.1" / "index.html").write_text("<!DOCTYPE html><title>0.1</title><p>The release.")
    build.write_versions(out)

    def handler(*args):
        return Quiet(*args, directory=str(out))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/dev/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(address, tmp_path_factory):
    browser = Browser(str(tmp_path_factory.mktemp("profile")))
    browser.allowed = (*browser.allowed, address.removesuffix("dev/"))
    yield browser
    browser.close()


def wait(browser, script, seconds=10):
    """Waits until an expression is true, on a page that may lead to another one meanwhile."""
    end = time.monotonic() + seconds
    while not _holds(browser, script):
        assert time.monotonic() < end, script
        time.sleep(0.05)


def _holds(browser, script):
    try:
        return browser.run(script)
    except RuntimeError as error:
        if "navigated" not in str(error):
            raise
        return False


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page(browser, address, page, width):
    columns, rows = WIDTHS[width]
    browser.open(address + PAGES[page], width=columns, height=rows)
    wait(browser, "document.querySelector('.md-version__current') !== null")
    assert browser.run("document.querySelector('h1').textContent.length") > 3
    assert browser.run("document.documentElement.scrollWidth") <= columns, "no sideways scrolling"
    broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    assert browser.run(broken) == []
    if folder := os.environ.get("COTAN_SCREENSHOTS"):
        browser.screenshot(Path(folder) / f"site-{page}-{width}.png")
    assert browser.faults == []


def test_search_finds_a_function(browser, address):
    browser.open(address)
    browser.run("document.querySelector('.md-search__input').focus()")
    browser.call("Input.insertText", text="value_and_gradient")
    wait(browser, "document.querySelectorAll('.md-search-result__item a').length > 0")
    links = "[...document.querySelectorAll('.md-search-result__item a')].map(a => a.href)"
    assert any("#cotan.value_and_gradient" in link for link in browser.run(links)[:4])
    assert browser.faults == []


def test_what_is_copied_has_no_prompts(browser, address):
    browser.open(address + "tutorial/quickstart/")
    copied = browser.run("""(() => {
      const code = document.querySelector('.language-pycon code');
      code.setAttribute('data-md-copying', '');
      const text = code.innerText;
      code.removeAttribute('data-md-copying');
      return text;
    })()""")
    assert "import cotan as ct" in copied
    assert ">>>" not in copied


def test_the_decision_picture_leads_to_pages(browser, address):
    browser.open(address + "how_to/which_function/")
    names = browser.run("[...document.querySelectorAll('.decision a')].map(a => a.ariaLabel)")
    rows = browser.run("document.querySelectorAll('article tbody tr').length")
    assert len(names) == rows > 25
    assert all(names)
    inside = browser.run("""(() => {
      const frame = document.querySelector('.decision svg').getBoundingClientRect();
      return [...document.querySelectorAll('.decision text')].every(t => {
        const box = t.getBoundingClientRect();
        return box.left >= frame.left - 1 && box.right <= frame.right + 1;
      });
    })()""")
    assert inside
    # Texts of one line do not run into the function that stands beside them.
    clear = browser.run("""[...document.querySelectorAll('.decision a')].every(a => {
      const [want] = a.querySelectorAll('text');
      const call = a.querySelector('.call');
      return want.getBoundingClientRect().right < call.getBoundingClientRect().left;
    })""")
    assert clear
    browser.open(address + "how_to/which_function/", width=390)
    assert not browser.run("document.querySelector('.decision').checkVisibility()")
    assert browser.run("document.querySelector('article table').checkVisibility()")


def test_versions_can_be_chosen(browser, address):
    browser.open(address)
    wait(browser, "document.querySelectorAll('.md-version__link').length > 0")
    names = browser.run("""[...document.querySelectorAll('.md-version__link')]
      .map(link => link.firstChild.textContent.trim())""")
    assert names == ["dev", "0.1"]
    release = browser.run("document.querySelectorAll('.md-version__link')[1].href")
    assert release.startswith(address.replace("/dev/", "/0.1/"))


def test_a_page_of_another_version_says_so(browser, address):
    browser.open(address + "tutorial/quickstart/")
    wait(browser, "document.querySelector('.other-version').checkVisibility()")
    newest = browser.run("document.querySelector('.other-version a').href")
    browser.open(newest)
    wait(browser, "location.pathname.endsWith('/0.1/')")
    assert browser.run("document.body.textContent").strip() == "The release."
