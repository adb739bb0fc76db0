"""Digests of arrays, which user code takes as keys of a cache of results.

Problem: a cached result belongs to other arrays than the active one, even if the elements are
equal: it would have the derivatives of those. So an active array gets a new digest each time.
"""

import hashlib
import itertools

from cotan._src.runtime.registry import override
from cotan._src.runtime.values import is_active, is_array, to_numpy

_COUNT = itertools.count()


def _digests(name: str, at: int = 0) -> None:
    original = getattr(hashlib, name)

    @override(f"hashlib.{name}")
    def digest(*args: object, **kwargs: object) -> object:
        # `hashlib.new` takes the name of an algorithm first.
        given = [*args]
        x = given[at] if len(given) > at and is_array(given[at]) else None
        if x is None:
            return original(*args, **kwargs)
        given[at] = bytes(to_numpy(x)) + (b"%d" % next(_COUNT) if is_active(x) else b"")
        return original(*given, **kwargs)


for _name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s"):
    _digests(_name)
_digests("new", 1)
