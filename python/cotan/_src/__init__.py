"""The implementation of cotan, in layers: a package imports only packages below it.

`docs/architecture.md` draws them; `tests/python/test_layers.py` keeps them.
"""
