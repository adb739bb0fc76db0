"""cotan in company of PyTorch, which is imported by the first call.

`wrap` makes a function of tensors out of a function of NumPy, with derivatives by cotan. `lift`
makes a function of arrays out of one of PyTorch, with derivatives by PyTorch.

>>> import cotan as ct
>>> import numpy as np
>>> import torch
>>> f = ct.torch.wrap(lambda x: np.sum(np.sin(x)))
>>> torch.func.grad(f)(torch.zeros(2))
tensor([1., 1.])
"""

from cotan._src.interop.torch_api import lift, parameters, wrap

__all__ = ["lift", "parameters", "wrap"]
