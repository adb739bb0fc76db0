"""Rules for `scipy.optimize`: minimizers, root finders, fits."""
