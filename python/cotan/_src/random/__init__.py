"""Random numbers that are functions of a key: the generator, keys, and distributions over them."""
