"""The estimator of the page on scikit-learn passes scikit-learn's checks."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

checks = pytest.importorskip("sklearn.utils.estimator_checks")

PAGE = Path(__file__).parents[3] / "docs/how_to/scikit_learn.md"


def test_check_estimator(tmp_path, monkeypatch):
    # Estimators are pickled, so their class has to be in a module.
    source = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    path = tmp_path / "estimator_of_the_page.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    found = checks.check_estimator(module.RobustRegressor(), on_skip=None, on_fail=None)
    wrong = {c["check_name"]: c["exception"] for c in found if c["status"] == "failed"}
    assert not wrong
    assert sum(c["status"] == "passed" for c in found) > 30
