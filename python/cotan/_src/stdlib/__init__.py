"""Rules for modules of the standard library."""
