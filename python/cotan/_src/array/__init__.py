"""Methods and protocols of `Array` that are written in Python."""
