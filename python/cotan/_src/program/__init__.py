"""Methods of `Program` that are written in Python, and saved files."""
