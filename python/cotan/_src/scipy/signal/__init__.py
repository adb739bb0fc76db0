"""Rules for `scipy.signal`: filters, spectra, linear systems."""
