"""Rebinding: library source runs on `Array`s, with substituted globals."""
