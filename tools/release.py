"""Prepares a checkout for a release: the repository's address, links that work elsewhere, checks.

    python tools/release.py --tag v0.1.0 --check
    python tools/release.py --tag v0.1.0 --notes
    python tools/release.py --tag v0.1.0 --repository https://HOST/OWNER/NAME

The address of the repository is written nowhere in the sources. The release workflow knows it, and
hands it to this script, which enters it into the metadata of the package and the crates, and makes
the relative links of the README absolute: PyPI and crates.io show it without the files beside it.
`--check` compares the versions in `Cargo.toml`, `CITATION.cff` and `CHANGELOG.md` with the tag;
`--notes` prints the section of the changelog.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
#: The crates that are published; the others are parts of the module.
MANIFESTS = ("Cargo.toml", "rust/linalg/Cargo.toml", "rust/wgpu/Cargo.toml")
PICTURES = {".svg", ".png", ".jpg", ".gif"}


class Problem(Exception):  # noqa: N818 - it is shown, not raised to others
    """Something that stands in the way of a release."""


def absolute_links(text: str, repository: str, tag: str, top: Path = TOP) -> str:
    """Make the relative links of a page at the top absolute; pictures lead to their bytes.

    Raises `Problem` for a link to a file that is not there.
    """

    def absolute(found: re.Match[str]) -> str:
        mark, shown, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, hash_, anchor = target.partition("#")
        if not (top / path).exists():
            raise Problem(f"README.md has a link to {path}, which is not there")
        if mark and Path(path).suffix in PICTURES:
            kind = "raw"
        else:
            kind = "tree" if (top / path).is_dir() else "blob"
        return f"{mark}[{shown}]({repository}/{kind}/{tag}/{path}{hash_}{anchor})"

    # Code is left as it is.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(p if p.startswith("```") else LINK.sub(absolute, p) for p in parts)


def with_urls(text: str, repository: str, tag: str) -> str:
    """Enter `[project.urls]` into a `pyproject.toml`."""
    urls = {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/index.md",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Source": f"{repository}/tree/{tag}",
    }
    if re.search(r"^\[project\.urls\]", text, re.MULTILINE):
        raise Problem("pyproject.toml has [project.urls] already")
    table = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    place = "[project.optional-dependencies]\n"
    if place not in text:
        raise Problem(f"pyproject.toml has no {place.strip()}")
    return text.replace(place, f"[project.urls]\n{table}\n{place}", 1)


def with_repository(text: str, repository: str) -> str:
    """Enter the repository into a `Cargo.toml`: the workspace's own value, and each package's."""
    license_ = "license.workspace = true\n"
    if re.search(r"^repository", text, re.MULTILINE):
        raise Problem("Cargo.toml has a repository already")
    text = text.replace(license_, f"{license_}repository.workspace = true\n", 1)
    return re.sub(
        r"(\[workspace\.package\]\n(?:[^\[].*\n)*?license = .*\n)",
        rf'\g<1>repository = "{repository}"\n',
        text,
        count=1,
    )


def with_code(text: str, repository: str) -> str:
    """Enter the repository into a `CITATION.cff`."""
    return f'{text.rstrip()}\nrepository-code: "{repository}"\n'


def version(top: Path = TOP) -> str:
    """Give the version of the workspace."""
    manifest = tomllib.loads((top / "Cargo.toml").read_text(encoding="utf-8"))
    found: str = manifest["workspace"]["package"]["version"]
    return found


def notes(tag: str, top: Path = TOP) -> str:
    """Give the section of the changelog for a version.

    Raises `Problem` if there is none, or it is empty.
    """
    name = re.escape(tag.removeprefix("v"))
    text = (top / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {name}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise Problem(f"CHANGELOG.md has no section for {tag.removeprefix('v')}")
    return found[1].strip()


def problems(tag: str, top: Path = TOP) -> list[str]:
    """Say what does not fit a tag."""
    wanted = tag.removeprefix("v")
    found = []
    if not re.fullmatch(r"v\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?", tag):
        found.append(f"the tag is {tag}, and not of the form v1.2.3 or v1.2.3-rc.1")
    if version(top) != wanted:
        found.append(f"Cargo.toml has version {version(top)}")
    for file in MANIFESTS:
        manifest = tomllib.loads((top / file).read_text(encoding="utf-8"))
        for name, needed in manifest["dependencies"].items():
            if isinstance(needed, dict) and "path" in needed and needed.get("version") != wanted:
                found.append(f"{file} asks for {name} {needed.get('version')}")
    cited = re.search(
        r"^version: (.*)$", (top / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE
    )
    if cited is None or cited[1].strip('"') != wanted:
        found.append(f"CITATION.cff has version {cited[1] if cited else 'none'}")
    try:
        notes(tag, top)
    except Problem as problem:
        found.append(str(problem))
    else:
        heading = rf"^## {re.escape(wanted)} - \d{{4}}-\d\d-\d\d$"
        changes = (top / "CHANGELOG.md").read_text(encoding="utf-8")
        if not re.search(heading, changes, re.MULTILINE):
            found.append(f"CHANGELOG.md has no date: ## {wanted} - YYYY-MM-DD")
    return found


def enter(repository: str, tag: str, top: Path = TOP) -> None:
    """Write the address into the files of a checkout."""
    repository = repository.rstrip("/").removesuffix(".git")
    if not re.fullmatch(r"https://[\w.-]+/[\w./-]+", repository):
        raise Problem(f"{repository} is no address of a repository: https://HOST/OWNER/NAME")
    changed = {}
    for name in MANIFESTS:
        text = (top / name).read_text(encoding="utf-8")
        changed[name] = with_repository(text, repository)
    text = (top / "pyproject.toml").read_text(encoding="utf-8")
    changed["pyproject.toml"] = with_urls(text, repository, tag)
    text = (top / "README.md").read_text(encoding="utf-8")
    changed["README.md"] = absolute_links(text, repository, tag, top)
    text = (top / "CITATION.cff").read_text(encoding="utf-8")
    changed["CITATION.cff"] = with_code(text, repository)
    # Nothing is written before everything has been found in its place.
    for name, text in changed.items():
        (top / name).write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run; the status is 1 if something stands in the way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tag", required=True, help="v and the version")
    parser.add_argument("--repository", help="its address; files are changed")
    parser.add_argument("--check", action="store_true", help="compare versions with the tag")
    parser.add_argument("--notes", action="store_true", help="print the section of the changelog")
    options = parser.parse_args(arguments)
    try:
        found = problems(options.tag) if options.check else []
        for line in found:
            print(f"release: {line}", file=sys.stderr)
        if found:
            return 1
        if options.notes:
            print(notes(options.tag))
        if options.repository:
            enter(options.repository, options.tag)
    except Problem as problem:
        print(f"release: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
