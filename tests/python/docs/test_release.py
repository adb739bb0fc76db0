"""Files of the project: what a release enters into them, and that they fit each other."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
NAMES = ["Cargo.toml", "rust/linalg/Cargo.toml", "rust/wgpu/Cargo.toml", "rust/py/Cargo.toml"]
NAMES += ["pyproject.toml"]
NAMES += ["README.md", "CHANGELOG.md", "CITATION.cff"]
ADDRESS = "https://git.example/owner/cotan"
YAML = sorted([*TOP.glob(".github/**/*.yml"), TOP / "CITATION.cff"])

spec = importlib.util.spec_from_file_location("release", TOP / "tools" / "release.py")
release = importlib.util.module_from_spec(spec)
spec.loader.exec_module(release)
TAG = f"v{release.version()}"


@pytest.fixture
def checkout(tmp_path):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, tmp_path / name)
    for linked in re.findall(r"\]\(([^)#\s]+)", (TOP / "README.md").read_text()):
        place = tmp_path / linked
        if not linked.startswith("http") and not place.exists():
            if (TOP / linked).is_dir():
                place.mkdir(parents=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
    return tmp_path


def read(top, name):
    return tomllib.loads((top / name).read_text())


def test_the_address_is_entered_everywhere(checkout):
    release.enter(ADDRESS + ".git", TAG, checkout)
    workspace = read(checkout, "Cargo.toml")
    assert workspace["workspace"]["package"]["repository"] == ADDRESS
    for name in release.MANIFESTS:
        assert read(checkout, name)["package"]["repository"] == {"workspace": True}
    urls = read(checkout, "pyproject.toml")["project"]["urls"]
    assert urls["Homepage"] == ADDRESS
    assert urls["Changelog"] == f"{ADDRESS}/blob/{TAG}/CHANGELOG.md"
    assert f'repository-code: "{ADDRESS}"' in (checkout / "CITATION.cff").read_text()
    # Only what was added differs.
    before, after = read(TOP, "pyproject.toml"), read(checkout, "pyproject.toml")
    del after["project"]["urls"]
    assert after == before


def test_links_of_the_readme_work_from_elsewhere(checkout):
    release.enter(ADDRESS, TAG, checkout)
    text = (checkout / "README.md").read_text()
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", text, flags=16 | 8))
    assert targets
    assert all(target.startswith("https://") for target in targets), targets
    assert f"]({ADDRESS}/raw/{TAG}/docs/reference/peers.svg)" in text
    assert f"]({ADDRESS}/blob/{TAG}/docs/index.md#how-to)" in text
    assert f"]({ADDRESS}/tree/{TAG}/examples)" in text
    assert "```python\nimport cotan as ct" in text


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "here.md").touch()
    text = release.absolute_links("[a](here.md#x) [d](#e)", ADDRESS, TAG, tmp_path)
    assert text.startswith(f"[a]({ADDRESS}/blob/{TAG}/here.md#x)")
    assert text.endswith("[d](#e)")
    with pytest.raises(release.Problem, match=r"gone\.md"):
        release.absolute_links("[a](gone.md)", ADDRESS, TAG, tmp_path)
    code = "```text\n[a](gone.md)\n```"
    assert release.absolute_links(code, ADDRESS, TAG, tmp_path) == code


def test_nothing_is_entered_twice_or_in_part(checkout):
    release.enter(ADDRESS, TAG, checkout)
    before = {name: (checkout / name).read_text() for name in NAMES}
    with pytest.raises(release.Problem, match="already"):
        release.enter(ADDRESS, TAG, checkout)
    assert {name: (checkout / name).read_text() for name in NAMES} == before
    with pytest.raises(release.Problem, match="no address"):
        release.enter("git@host:owner/name", TAG, checkout)


def test_the_versions_fit_each_other():
    """All but the date, which the day of the release gives."""
    assert [p for p in release.problems(TAG) if "no date" not in p] == []


def test_versions_that_do_not_fit_a_tag(checkout):
    found = "\n".join(release.problems("v9.8.7", checkout))
    for part in ("Cargo.toml has version", "CITATION.cff has version", "no section for 9.8.7"):
        assert part in found
    assert "asks for cotan-linalg" in found
    assert "not of the form" in release.problems("9.8.7", checkout)[0]


def test_every_crate_that_is_published_is_known_and_has_its_licences():
    published = {
        path.relative_to(TOP).as_posix()
        for path in [TOP / "Cargo.toml", *TOP.glob("rust/*/Cargo.toml")]
        if tomllib.loads(path.read_text())["package"].get("publish") is not False
    }
    assert published == set(release.MANIFESTS)
    for name in published:
        folder = (TOP / name).parent
        package = read(TOP, name)["package"]
        assert {"description", "keywords", "categories", "license", "include"} <= package.keys()
        assert any("LICENSE*" in pattern for pattern in package["include"])
        assert (folder / "README.md").exists()
        for licence in ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE"):
            assert (folder / licence).read_bytes() == (TOP / licence).read_bytes()


def test_the_date_of_the_changelog(checkout):
    page = checkout / "CHANGELOG.md"
    name = TAG.removeprefix("v")
    text = re.sub(rf"^## {re.escape(name)}.*$", f"## {name}", page.read_text(), flags=re.MULTILINE)
    page.write_text(text)
    assert release.problems(TAG, checkout) == [f"CHANGELOG.md has no date: ## {name} - YYYY-MM-DD"]
    page.write_text(text.replace(f"## {name}\n", f"## {name} - 2030-01-31\n"))
    assert release.problems(TAG, checkout) == []
    assert "### Added" in release.notes(TAG, checkout)
    assert "## " not in re.sub("### ", "", release.notes(TAG, checkout))


def test_the_command():
    command = [sys.executable, str(TOP / "tools" / "release.py"), "--tag"]
    done = subprocess.run([*command, TAG, "--notes"], check=True, capture_output=True, text=True)
    assert "### Added" in done.stdout
    done = subprocess.run(
        [*command, "v9.8.7", "--check"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "release: Cargo.toml has version" in done.stderr


def test_no_address_stands_in_the_sources():
    for name in NAMES:
        assert "example.org" not in (TOP / name).read_text()


def test_the_changelog_has_the_known_headings():
    text = (TOP / "CHANGELOG.md").read_text()
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert set(headings) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert re.search(r"^## Unreleased$", text, re.MULTILINE)


@pytest.mark.parametrize("path", YAML, ids=lambda p: p.name)
def test_yaml_can_be_read(path):
    yaml = pytest.importorskip("yaml")
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_links_of_the_project_files():
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", (TOP / name).read_text()):
            if not target.startswith("http"):
                assert (TOP / target.partition("#")[0]).exists(), (name, target)


def test_every_step_of_the_workflows_is_a_target():
    """What CI runs, runs here too."""
    known = set(re.findall(r"^([\w-]+):(?!=)", (TOP / "Makefile").read_text(), re.MULTILINE))
    called = set()
    for path in TOP.glob(".github/workflows/*.yml"):
        called |= set(re.findall(r"run: make ([\w-]+)", path.read_text()))
    assert {"lint", "test-rust", "test-python", "sdist", "audit"} <= called <= known


def test_the_help_of_make_names_every_target():
    text = (TOP / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", text, re.MULTILINE)[1].replace("\\", "").split()
    shown = set(re.findall(r"^#   make ([\w-]+)", text, re.MULTILINE))
    assert set(phony) - shown <= {"help", "test-rust", "test-python", "clean"}


def test_systems_of_the_workflows_have_classifiers():
    workflow = (TOP / ".github/workflows/checks.yml").read_text()
    versions = re.search(r"python: \[(.*)\]", workflow)[1]
    named = read(TOP, "pyproject.toml")["project"]["classifiers"]
    for version in re.findall(r'"([\d.]+)"', versions):
        assert f"Programming Language :: Python :: {version}" in named


def of_glibc():
    spec = importlib.util.spec_from_file_location("glibc", TOP / "tools" / "glibc.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_symbols_of_glibc_are_those_that_objdump_names():
    from cotan import _core

    glibc = of_glibc()
    found = glibc.needed(Path(_core.__file__).read_bytes())
    if not found:
        pytest.skip("it is linked to another C library")
    assert all(version >= (2, 2) for version in found.values())
    if shutil.which("objdump") is None:
        pytest.skip("there is no objdump")
    listing = subprocess.run(
        ["objdump", "-T", _core.__file__], check=True, capture_output=True, text=True
    ).stdout
    rows = re.findall(r"\*UND\*.*\(?GLIBC_([\d.]+)\)? +(\w+)$", listing, re.MULTILINE)
    assert found == {name: tuple(map(int, v.split("."))) for v, name in rows}


def test_newer_symbols_are_named(tmp_path, capsys, monkeypatch):
    glibc = of_glibc()
    symbols = {"malloc": (2, 2, 5), "hypot": (2, 35), "dlsym": (2, 34)}
    monkeypatch.setattr(glibc, "needed", lambda _: symbols)
    (tmp_path / "a.so").touch()
    assert glibc.main([str(tmp_path / "a.so"), "--at-most", "2.28"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "a.so: glibc 2.35",
        "    dlsym of 2.34",
        "    hypot of 2.35",
    ]
    assert glibc.main([str(tmp_path / "a.so"), "--at-most", "2.35"]) == 0
    with zipfile.ZipFile(tmp_path / "b.whl", "w") as wheel:
        wheel.writestr("cotan/x.py", "")
    assert glibc.main([str(tmp_path / "b.whl")]) == 1
    assert "no shared library" in capsys.readouterr().err


def test_what_is_no_elf(tmp_path):
    glibc = of_glibc()
    with pytest.raises(glibc.NotElfError):
        glibc.needed(b"MZ" + bytes(100))
