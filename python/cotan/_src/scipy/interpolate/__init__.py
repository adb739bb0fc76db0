"""Rules for `scipy.interpolate`: splines, grids and radial basis functions."""
