"""Public transforms and rules written in Python: derivatives, custom rules, checkpoints, `vmap`."""
