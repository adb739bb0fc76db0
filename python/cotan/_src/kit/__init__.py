"""Building blocks of rules: host calls, implicit differentiation, decompositions, Fourier."""
