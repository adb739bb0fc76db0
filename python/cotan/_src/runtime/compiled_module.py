"""Finds the compiled module `cotan._core`: that of the package `cotan-wgpu` where it is installed.

cotan's own wheel has no support for GPUs, which would make it too large. `cotan-wgpu` is a wheel
with the same module, compiled with that support, in the package `cotan_wgpu`. Here it takes the
place of cotan's own, before anything has imported that one.
"""

import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, module_from_spec
from pathlib import Path

NAME = "cotan._core"
EXTRA = "cotan_wgpu"


def module_of_extra_wheel() -> Path | None:
    """Give the file of the module in `cotan_wgpu`; `None` where that is not installed.

    Raises `ImportError` if it belongs to another version of cotan.
    """
    spec = find_spec(EXTRA)
    if spec is None or not spec.origin:
        return None
    folder = Path(spec.origin).parent
    files = (folder / f"_core{suffix}" for suffix in EXTENSION_SUFFIXES)
    file = next((file for file in files if file.exists()), None)
    if file is not None:
        _check_versions()
    return file


def _check_versions() -> None:
    try:
        own, extra = version("cotan"), version(EXTRA)
    except PackageNotFoundError:  # not installed, but on the path: whoever did that knows
        return
    if own != extra:
        raise ImportError(
            f"cotan-wgpu {extra} does not belong to cotan {own}; "
            f"install the one that does, with pip install cotan-wgpu=={own}"
        )


def use_extra_wheel() -> None:
    """Import `cotan._core` from `cotan_wgpu`, if that is installed."""
    if NAME in sys.modules:
        return
    file = module_of_extra_wheel()
    if file is None:
        return
    loader = ExtensionFileLoader(NAME, str(file))
    spec = ModuleSpec(NAME, loader, origin=str(file))
    spec.has_location = True
    module = module_from_spec(spec)
    sys.modules[NAME] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[NAME]
        raise
    sys.modules["cotan"]._core = module  # type: ignore[attr-defined]


use_extra_wheel()
