"""The wheel `cotan-wgpu`: what it has, and that cotan imports its module from there."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cotan as ct

TOOL = Path(__file__).parents[3] / "tools" / "gpu_wheel.py"


def in_folder(folder, code):
    path = os.pathsep.join([str(folder), str(Path(ct.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def package(tmp_path):
    """A folder with the package, whose module is that of this process."""
    folder = tmp_path / "cotan_wgpu"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    module = Path(ct._core.__file__)
    shutil.copy(module, folder / module.name)
    return folder


def test_its_module_takes_the_place_of_the_usual_one(package):
    code = "import cotan, numpy as np; print(cotan._core.__file__); cotan.gradient(np.sin, 1.0)"
    done = in_folder(package.parent, code)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent == package


def test_a_package_without_a_module_changes_nothing(package):
    (package / Path(ct._core.__file__).name).unlink()
    done = in_folder(package.parent, "import cotan; print(cotan._core.__file__)")
    assert Path(done.stdout.strip()) == Path(ct._core.__file__)


def test_versions_have_to_agree(package):
    own = importlib.metadata.version("cotan")
    info = package.parent / "cotan_wgpu-99.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: cotan-wgpu\nVersion: 99.0\n")
    done = in_folder(package.parent, "import cotan")
    assert done.returncode == 1
    assert f"cotan-wgpu 99.0 does not belong to cotan {own}" in done.stderr


@pytest.mark.skipif(not TOOL.exists(), reason="the sources are not here")
def test_the_wheel_has_the_module_alone(tmp_path):
    spec = importlib.util.spec_from_file_location("gpu_wheel", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    source, info = tmp_path / "cotan-1.2.3-cp311-abi3-linux_x86_64.whl", "cotan-1.2.3.dist-info"
    about = "Metadata-Version: 2.4\nName: cotan\nVersion: 1.2.3\nRequires-Python: >=3.11\n\ntext"
    with zipfile.ZipFile(source, "w") as wheel:
        wheel.writestr("cotan/__init__.py", "")
        wheel.writestr("cotan/_core.pyi", "")
        wheel.writestr("cotan/_core.abi3.so", b"module")
        wheel.writestr(f"{info}/METADATA", about)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\n")
        wheel.writestr(f"{info}/licenses/LICENSE", "terms")
    made = tool.extra_wheel(source, tmp_path / "out")
    assert made.name == "cotan_wgpu-1.2.3-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(made) as wheel:
        own = "cotan_wgpu-1.2.3.dist-info"
        assert set(wheel.namelist()) == {
            "cotan_wgpu/__init__.py",
            "cotan_wgpu/_core.abi3.so",
            f"{own}/METADATA",
            f"{own}/WHEEL",
            f"{own}/RECORD",
            f"{own}/licenses/LICENSE",
        }
        assert wheel.read("cotan_wgpu/_core.abi3.so") == b"module"
        metadata = wheel.read(f"{own}/METADATA").decode()
        assert "Name: cotan-wgpu\n" in metadata
        assert "Requires-Dist: cotan==1.2.3\n" in metadata
        assert "Requires-Python: >=3.11\n" in metadata
        listed = wheel.read(f"{own}/RECORD").decode().splitlines()
        assert sorted(line.split(",")[0] for line in listed) == sorted(wheel.namelist())
