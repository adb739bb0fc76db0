"""Functions of cotan in graphs of PyTensor."""
