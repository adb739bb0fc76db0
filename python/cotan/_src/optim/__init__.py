"""Optimisers for training: gradient steps over structures, in optax's manner."""
