"""Rules for `scipy.integrate`: quadrature and initial value problems."""
