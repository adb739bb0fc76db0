"""The registry of overrides: what cotan knows about functions of other libraries.

A row (`Override`) says of one function, method or class, by its dotted name, which rule computes
it on `Array`s, when that rule is asked, and what kind of thing it is. `override` enters rows. No
library is imported for its rows: the modules that enter them (`PROVIDERS`) are imported after it.
"""

import enum
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from cotan._src.runtime.constant_fallback import with_constant_fallback, with_foreign_fallback

if TYPE_CHECKING:
    from types import FrameType

Rule = Callable[..., Any]
_R = TypeVar("_R")


class Kind(enum.Enum):
    """What the target of an override is, and so from where the rule is called."""

    #: A function that NumPy dispatches by `__array_function__`.
    DISPATCHED = "dispatched function"
    #: A ufunc. NumPy asks the `Array` for it, by its name.
    UFUNC = "ufunc"
    #: Any other function of a module.
    FUNCTION = "function"
    #: A method of a class.
    METHOD = "method"
    #: A method of a class that is compiled, so that no method of it can be exchanged. It is a
    #: method of the class that cotan derives, and gets an object of the original class.
    DERIVED_METHOD = "method of a derived class"
    #: A function that makes a new array, into which traced values may be written later.
    CREATOR = "creator"
    #: A class that makes numbers: `numpy.float64`.
    NUMBER_CLASS = "class of numbers"
    #: An object that is indexed, such as `numpy.r_`. The rule gets the object, and gives the
    #: function of a key that computes what its brackets give.
    INDEXED = "object with brackets"
    #: What an object is in rebound library code, by whichever name it is known there.
    SUBSTITUTE = "name in library code"
    #: What a name means in the rebound code of its module alone, which may name NumPy itself.
    LOCAL_SUBSTITUTE = "name in the code of one module"
    #: A member that a class has in rebound library code, and only there.
    SUBSTITUTE_MEMBER = "member in library code"
    #: A class that is rebound where rebound library code names it. It has no rule of its own.
    REBOUND_CLASS = "class in library code"


class When(enum.Enum):
    """When the rule is asked."""

    #: Where an `Array` is among the arguments, or in a list or tuple among them.
    ARRAY = "an array is among the arguments"
    #: In each call while something is recorded: an `Array` may hide in a function among the
    #: arguments. The rule calls the original itself where none does.
    ALWAYS = "always"


class Way(enum.Enum):
    """How the derivative comes about, for the tables of the documentation."""

    RULE = "a rule"
    REBOUND = "the library's own code"
    VALUES = "piecewise constant: on values"
    REFUSED = "refused by name"


DISPATCHED, FUNCTION, METHOD, CREATOR = Kind.DISPATCHED, Kind.FUNCTION, Kind.METHOD, Kind.CREATOR
UFUNC, DERIVED_METHOD = Kind.UFUNC, Kind.DERIVED_METHOD
NUMBER_CLASS, INDEXED, SUBSTITUTE = Kind.NUMBER_CLASS, Kind.INDEXED, Kind.SUBSTITUTE
LOCAL_SUBSTITUTE, SUBSTITUTE_MEMBER = Kind.LOCAL_SUBSTITUTE, Kind.SUBSTITUTE_MEMBER
REBOUND_CLASS = Kind.REBOUND_CLASS
ARRAY, ALWAYS = When.ARRAY, When.ALWAYS


@dataclass(frozen=True, slots=True)
class Override:
    """What cotan knows about one function, method or class of another library."""

    #: The dotted name: `"scipy.linalg.solve"`.
    target: str
    #: What computes it, with the target's own signature; None where the kind says it all.
    rule: Rule | None
    kind: Kind = Kind.FUNCTION
    when: When = When.ARRAY
    way: Way = Way.RULE
    #: The versions that have the target, where not all have: `"scipy>=1.18"`.
    versions: str = ""

    @property
    def owner(self) -> str:
        """The dotted name of the module or class that has the target."""
        return self.target.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The target's name in its owner."""
        return self.target.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class RuleMaker:
    """Makes a rule for each target of an override, from its dotted name."""

    make: Callable[[str], Rule]
    way: Way


# Rows by kind, owner and name.
_ROWS: dict[Kind, dict[str, dict[str, Override]]] = {kind: {} for kind in Kind}

#: The rules of functions that NumPy dispatches, by the function.
FUNCTIONS: dict[Any, Rule] = {}

#: The rules of ufuncs, by the name of the ufunc: `numpy.exp` and what others call `exp`.
UFUNCS: dict[str, Rule] = {}


# Rows that user code has entered: cotan's rows, which may be entered later, do not replace them.
_FROM_USER_CODE: set[tuple[Kind, str]] = set()

# The globals of the module whose import has entered a row of cotan's.
_ENTERED_BY: dict[tuple[Kind, str], dict[str, Any]] = {}


def enter(row: Override, *, replace: bool = True) -> None:
    """Enter a row, in the place of one of the same kind and target, as `ct.lift` does.

    Such a row stays. With `replace=False`, as `override` enters cotan's own, a row gives way to it,
    and `ValueError` is raised where cotan has another one. A row of an import that was broken off,
    as by Ctrl-C, is no other one: the module is imported again, and enters its rows again.
    """
    place = row.kind, row.target
    known = _ROWS[row.kind].setdefault(row.owner, {})
    if replace:
        _FROM_USER_CODE.add(place)
    elif place in _FROM_USER_CODE:
        return
    else:
        if known.get(row.name, row) != row and _is_imported(_ENTERED_BY.get(place)):
            raise ValueError(
                f"override: there already is a row for the {row.kind.value} {row.target}"
            )
        _ENTERED_BY[place] = _importing_module()
    known[row.name] = row


def _importing_module() -> dict[str, Any]:
    """Give the globals of the module that is being imported, this module's where none is."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__spec__") is not None:
            return frame.f_globals
        frame = frame.f_back
    return globals()


def _is_imported(names: dict[str, Any] | None) -> bool:
    """Say whether these are the globals of a module that is there, not of a broken-off import."""
    module = None if names is None else sys.modules.get(names["__name__"])
    return module is not None and vars(module) is names


def _function(target: Any, versions: str) -> Any:
    """Give a function that NumPy dispatches, None where the installed version has none."""
    if not isinstance(target, str):
        return target
    module, _, name = target.rpartition(".")
    found = vars(sys.modules[module]).get(name)
    if found is None and not versions:
        raise LookupError(f"override: {target} does not exist, and the row names no versions")
    return found


def override(
    *targets: Any,
    kind: Kind | None = None,
    when: When = When.ARRAY,
    way: Way = Way.RULE,
    versions: str = "",
) -> Callable[[_R], _R]:
    """Enter a rule for each target: a dotted name, or a function that NumPy dispatches, itself.

    The decorated rule computes the target, with its signature, and is returned as it is. In its
    place a `RuleMaker` makes a rule for each target: `override("scipy.signal.welch")(REBOUND)`; it
    says the way, too.

    Raises `ValueError` where a target has another rule already.

    Of constant arguments the library's own functions may compute the values: see
    `constant_fallback`.
    """

    def enter_all(rule: _R) -> _R:
        for target in targets:
            is_name = isinstance(target, str)
            name = target if is_name else f"{target.__module__}.{target.__name__}"
            of = kind or (Kind.FUNCTION if is_name else Kind.DISPATCHED)
            its_way, made = way, cast("Any", rule)
            if isinstance(rule, RuleMaker):
                its_way, made = rule.way, rule.make(name)
            function = _function(target, versions) if of is Kind.DISPATCHED else None
            is_scipy = of is Kind.FUNCTION and name.startswith("scipy.")
            if is_scipy and when is When.ARRAY and not isinstance(made, type):
                made = with_constant_fallback(name, made)
            enter(Override(name, made, of, when, its_way, versions), replace=False)
            if function is not None:
                FUNCTIONS[function] = with_foreign_fallback(function, made)
            if of is Kind.UFUNC:
                UFUNCS[name.rpartition(".")[2]] = made
        return rule

    return enter_all


def named(owner: str, names: str) -> list[str]:
    """Give the dotted names of several members of a module or class, from their names in a text."""
    return [f"{owner}.{name}" for name in names.split()]


def rows(*kinds: Kind) -> Iterator[Override]:
    """Give the rows of some kinds, of all if none is named, in the order of their entry."""
    for kind in kinds or Kind:
        for names in list(_ROWS[kind].values()):
            yield from list(names.values())


def rows_of(owner: str, kind: Kind = Kind.FUNCTION) -> Mapping[str, Override]:
    """Give the rows of one module or class, by name."""
    return _ROWS[kind].get(owner, {})


def rules_of(owner: str, kind: Kind = Kind.FUNCTION) -> dict[str, Rule | None]:
    """Give the rules of one module or class, by name."""
    return {name: row.rule for name, row in rows_of(owner, kind).items()}


def owners(*kinds: Kind) -> list[str]:
    """Name the modules and classes that have rows of some kinds."""
    return list(dict.fromkeys(owner for kind in kinds for owner in _ROWS[kind]))


def rule_of(target: str, kind: Kind = Kind.FUNCTION) -> Any:
    """Give the rule of a target. Raises `KeyError` where it has none."""
    owner, _, name = target.rpartition(".")
    return _ROWS[kind][owner][name].rule
