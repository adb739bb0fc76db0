"""Keeps old names working for two minor versions, and says what replaced those that are gone.

`docs/contributing/deprecation.md` has the rules that this carries out.
"""

import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any


@dataclass(frozen=True)
class Renamed:
    """What a public name is called now, and between which versions the old name works.

    Parameters
    ----------
    now
        The present name, from its module: `"prepare"`, `"optim.adam"`.
    since
        The version in which the old name first warns, `"0.3"`.
    until
        The version in which it is gone: two minor versions later at the earliest.
    """

    now: str
    since: str
    until: str


@dataclass(frozen=True)
class OldNames:
    """Names that a module has no more: they warn and work, or raise and say what to write.

    Parameters
    ----------
    module
        The public module, `"cotan"`.
    renamed
        What still works, by the old name.
    instead
        For names that are gone, and those that other libraries have: what does the same.
    """

    module: str
    renamed: Mapping[str, Renamed] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Any:
        """Give what a renamed name stands for, with a `DeprecationWarning`.

        It is for a module's `__getattr__`. Raises `AttributeError` for any other name.

        >>> names = OldNames("math", {"flat": Renamed("floor", "0.2", "0.4")})
        >>> with warnings.catch_warnings(record=True) as found:
        ...     warnings.simplefilter("always")
        ...     names.find("flat")(1.5)
        1
        >>> str(found[0].message)
        'math.flat is called math.floor since 0.2; the old name goes with 0.4'
        """
        known = self.renamed.get(name)
        if known is not None:
            warn_renamed(f"{self.module}.{name}", f"{self.module}.{known.now}", known)
            return resolve_name(f"{self.module}:{known.now}")
        hint = self.instead.get(name)
        text = f"module {self.module!r} has no attribute {name!r}"
        # With both, the interpreter adds which name is meant.
        module = sys.modules.get(self.module)
        raise AttributeError(f"{text}; {hint}" if hint else text, name=name, obj=module)

    def overdue(self, version: str) -> list[str]:
        """Name what should be gone in a version: the tests ask with the present one.

        >>> names = OldNames("math", {"flat": Renamed("floor", "0.2", "0.4")})
        >>> names.overdue("0.3.1"), names.overdue("0.4.0")
        ([], ['math.flat'])
        """
        return [
            f"{self.module}.{name}"
            for name, known in self.renamed.items()
            if _minor(known.until) <= _minor(version)
        ]


def warn_renamed(old: str, new: str, known: Renamed) -> None:
    """Warn that a name, or a keyword in the form `f(key=)`, has another one now.

    The warning has the line at which the function that calls this was called.
    """
    warnings.warn(
        f"{old} is called {new} since {known.since}; the old name goes with {known.until}",
        DeprecationWarning,
        stacklevel=3,
    )


def _minor(version: str) -> tuple[int, int]:
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0
