"""What every rule needs: the registry of overrides, predicates on values, dtypes, the caller."""
