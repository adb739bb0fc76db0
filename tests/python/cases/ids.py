"""Names of parametrized tests: the same in every process, which tests that run in parallel need."""

import re


def same_everywhere(value):
    """Give a value as text without the addresses of objects and the order of sets."""
    text = str(sorted(value) if isinstance(value, set) else value)
    return re.sub(r" at 0x[0-9a-f]+", "", text)
