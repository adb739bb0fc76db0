"""The site builds without a warning, and its links lead somewhere: `make test-site`."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
SITE_TOOLS = TOP / "tools" / "site"
sys.path.append(str(SITE_TOOLS))

import build  # noqa: E402
import check  # noqa: E402

# Whichever test comes first builds the site, and runs the examples where they have changed.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A built site with two versions, as a release has it."""
    pytest.importorskip("material")
    out = tmp_path_factory.mktemp("site")
    build.build(out, "dev", url="https://example.org/docs")
    (out / "0.1").mkdir()
    (out / "0.1" / "index.html").write_text("<title>old</title>")
    (out / "0.9").mkdir()
    (out / "0.9" / "index.html").write_text("<title>old</title>")
    (out / "0.10").mkdir()
    (out / "0.10" / "index.html").write_text("<title>newest</title>")
    build.write_versions(out)
    return out


def test_links(site):
    assert list(check.faults(site)) == []
    assert len(check.pages(site / "dev")) > 100


def test_every_public_name_is_documented(site):
    import cotan as ct

    for module, file in ((ct.nn, "nn"), (ct.random, "random"), (ct.optim, "optim")):
        page = site / "dev" / "reference" / "api" / file / "index.html"
        text = page.read_text(encoding="utf-8")
        for name in module.__all__:
            assert f'id="{module.__name__}.{name}"' in text
    pages = [p.read_text(encoding="utf-8") for p in (site / "dev/reference/api").rglob("*.html")]
    for name in ct.__all__:
        assert any(f'id="cotan.{name.replace("__", "")}"' in text for text in pages), name
    gradient = (site / "dev/reference/api/derivatives/index.html").read_text(encoding="utf-8")
    assert "has_aux" in gradient
    assert "array([3., 4.])" in gradient


def test_the_search_index_has_names_and_text(site):
    index = json.loads((site / "dev/search/search_index.json").read_text(encoding="utf-8"))
    titles = {row["title"] for row in index["docs"]}
    assert {"Which derivative?", "Examples"} <= titles
    assert any("ct.hvp" in title for title in titles)


def test_names_in_the_text_are_links(site):
    page = (site / "dev/how_to/train/index.html").read_text(encoding="utf-8")
    wanted = 'href="../../reference/api/optim/#cotan.optim.apply_updates"'
    assert wanted in page


def test_cards(site):
    page = (site / "dev/how_to/train/index.html").read_text(encoding="utf-8")
    address = "https://example.org/docs/dev/assets/cards/how_to/train.png"
    assert f'property="og:image" content="{address}"' in page
    cards = list((site / "dev/assets/cards").rglob("*.png"))
    assert len(cards) == len(check.pages(site / "dev"))
    assert all(card.stat().st_size > 5000 for card in cards)


def test_versions_are_in_order(site):
    rows = json.loads((site / "versions.json").read_text(encoding="utf-8"))
    assert [row["version"] for row in rows] == ["dev", "0.10", "0.9", "0.1"]
    assert [row["version"] for row in rows if "latest" in row["aliases"]] == ["0.10"]
    assert 'href="0.10/"' in (site / "index.html").read_text(encoding="utf-8")


BAD = """<html><body><h1 id="here">x</h1><a href="other.html">1</a><a href="#there">2</a>
<img src="https://example.org/a.png"><script src="/a.js"></script><a href="../../up.html">3</a>
<p id="here">twice</p><a href="#here">good</a><a href="https://example.org">good</a></body></html>"""


def test_the_check_finds_what_is_wrong(tmp_path):
    (tmp_path / "index.html").write_text(BAD)
    found = [line.removeprefix("index.html: ") for line in check.faults(tmp_path)]
    assert found == [
        "two anchors #here",
        "other.html: no such file",
        "#there: no such anchor",
        "https://example.org/a.png: loaded from another host",
        "/a.js: absolute, so it breaks in a folder",
        "../../up.html: leads out of the site",
    ]


def test_rust_pages_that_are_not_there_are_named():
    if build.RUST.exists():
        pytest.skip("the Rust pages are there")
    command = [sys.executable, str(SITE_TOOLS / "build.py"), "--rust"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "make docs" in done.stderr


def test_the_extra_names_what_is_used():
    if importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed")
    import tomllib
    from importlib.metadata import version

    pinned = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    for line in pinned["optional-dependencies"]["site"]:
        name, _, number = line.partition("==")
        assert version(name) == number
