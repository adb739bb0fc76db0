"""Rules for `scipy.spatial`: distances and rotations."""
