"""Docstrings of the methods of `Array` that are made by name, each with an example that runs.

Where nothing else is said, a method has the signature of the ndarray method, gives an `Array` (or
the scalar `Array` that stands for a NumPy scalar), and raises the errors that NumPy raises.
"""

_OUT = "`out`, an array of the shape of the result, is written to and given back."

DOCSTRINGS = {
    # Reductions.
    "sum": f"""Give the sum over axes.

    Of the array's dtype or `dtype`; bools and integers are added up as int64 or uint64. Of no axes
    (`axis=None`) a scalar; reduced axes stay with length 1 under `keepdims`. {_OUT}

    >>> import cotan as ct
    >>> x = ct.array([[1.0, 2.0], [3.0, 4.0]])
    >>> x.sum(), x.sum(axis=0)
    (Array(10.), Array([4., 6.]))
    """,
    "prod": f"""Give the product over axes.

    Of the array's dtype or `dtype`; bools and integers are multiplied as int64 or uint64. The
    derivative is right where elements are zero, too. {_OUT}

    >>> import cotan as ct
    >>> ct.array([2.0, 3.0, 4.0]).prod()
    Array(24.)
    """,
    "mean": f"""Give the mean over axes: of the array's dtype, float64 for bools and integers.

    {_OUT}

    >>> import cotan as ct
    >>> ct.array([[1, 2], [3, 4]]).mean(axis=1)
    Array([1.5, 3.5])
    """,
    "max": """Give the largest element over axes; NaN where there is one.

    The derivative is shared by the elements that are equally large. Raises `ValueError` for no
    elements without `initial=`.

    >>> import cotan as ct
    >>> ct.array([[1.0, 5.0], [7.0, 2.0]]).max(axis=0)
    Array([7., 5.])
    """,
    "min": """Give the smallest element over axes; NaN where there is one.

    The derivative is shared by the elements that are equally small. Raises `ValueError` for no
    elements without `initial=`.

    >>> import cotan as ct
    >>> ct.array([[1.0, 5.0], [7.0, 2.0]]).min(axis=0)
    Array([1., 2.])
    """,
    "argmax": """Give the index of the first largest element: int64, which has no derivative.

    Along `axis`, or in the flattened array. Raises `ValueError` for no elements.

    >>> import cotan as ct
    >>> ct.array([[1.0, 5.0], [7.0, 2.0]]).argmax(axis=1)
    Array([1, 0])
    """,
    "argmin": """Give the index of the first smallest element: int64, which has no derivative.

    Along `axis`, or in the flattened array. Raises `ValueError` for no elements.

    >>> import cotan as ct
    >>> ct.array([[1.0, 5.0], [7.0, 2.0]]).argmin(axis=1)
    Array([0, 1])
    """,
    # Methods that call the function of their name.
    "all": f"""Do what `numpy.all` does, with this array first: whether no element is zero.

    Bools. {_OUT}

    >>> import cotan as ct
    >>> ct.array([[True, False], [True, True]]).all(axis=1)
    Array([False,  True])
    """,
    "any": f"""Do what `numpy.any` does, with this array first: whether an element is not zero.

    Bools. {_OUT}

    >>> import cotan as ct
    >>> ct.array([[True, False], [False, False]]).any(axis=1)
    Array([ True, False])
    """,
    "argpartition": """Do what `numpy.argpartition` does, with this array first: int64 indices.

    >>> import cotan as ct
    >>> ct.array([3.0, 1.0, 2.0]).argpartition(0)[0]
    Array(1)
    """,
    "argsort": """Do what `numpy.argsort` does, with this array first: int64 indices.

    >>> import cotan as ct
    >>> ct.array([3.0, 1.0, 2.0]).argsort()
    Array([1, 2, 0])
    """,
    "cumprod": """Do what `numpy.cumprod` does, with this array first.

    Of the shape of the array, flattened where `axis` is None; bools and integers as int64 or
    uint64.

    >>> import cotan as ct
    >>> ct.array([2.0, 3.0, 4.0]).cumprod()
    Array([ 2.,  6., 24.])
    """,
    "diagonal": """Do what `numpy.diagonal` does, with this array first: a view.

    Raises `ValueError` for fewer than two axes.

    >>> import cotan as ct
    >>> ct.array([[1.0, 2.0], [3.0, 4.0]]).diagonal()
    Array([1., 4.])
    """,
    "nonzero": """Do what `numpy.nonzero` does, with this array first: int64 indices for each axis.

    How many there are depends on values, so these are computed now; `ct.trace`, which has none,
    raises `TypeError`. Raises `ValueError` for an array without axes.

    >>> import cotan as ct
    >>> ct.array([0.0, 3.0, 4.0]).nonzero()
    (array([1, 2]),)
    """,
    "ptp": f"""Do what `numpy.ptp` does, with this array first: the largest less the smallest.

    {_OUT} Raises `ValueError` for no elements.

    >>> import cotan as ct
    >>> ct.array([3.0, 1.0, 2.0]).ptp()
    Array(2.)
    """,
    "put": """Do what `numpy.put` does, with this array first: write into it, counted flat.

    Raises `IndexError` for indices out of range, unless `mode` is "wrap" or "clip".

    >>> import cotan as ct
    >>> x = ct.array([1.0, 2.0, 3.0])
    >>> x.put([0, 2], [5.0, 6.0])
    >>> x
    Array([5., 2., 6.])
    """,
    "repeat": """Do what `numpy.repeat` does, with this array first.

    Along `axis`, or of the flattened array. Raises `ValueError` for as many counts as do not fit
    the axis.

    >>> import cotan as ct
    >>> ct.array([1.0, 2.0]).repeat(2)
    Array([1., 1., 2., 2.])
    """,
    "round": f"""Do what `numpy.round` does, with this array first.

    Of the array's shape and dtype; the derivative is 0. {_OUT}

    >>> import cotan as ct
    >>> ct.array([1.26, 2.5]).round(1)
    Array([1.3, 2.5])
    """,
    "searchsorted": """Do what `numpy.searchsorted` does, with this array first: int64 indices.

    Raises `ValueError` for an array of more or less than one axis.

    >>> import cotan as ct
    >>> ct.array([1.0, 2.0, 3.0]).searchsorted(2.5)
    np.int64(2)
    """,
    "std": f"""Do what `numpy.std` does, with this array first.

    Of the array's dtype, real for complex numbers, float64 for bools and integers. Where all
    elements are equal, the derivative is 0. {_OUT}

    >>> import cotan as ct
    >>> ct.array([1.0, 3.0]).std()
    Array(1.)
    """,
    "take": """Do what `numpy.take` does, with this array first.

    Of the flattened array, or along `axis`, whose place the axes of the indices take. Raises
    `IndexError` for indices out of range, unless `mode` is "wrap" or "clip".

    >>> import cotan as ct
    >>> ct.array([1.0, 2.0, 3.0]).take([2, 0])
    Array([3., 1.])
    """,
    "trace": """Do what `numpy.trace` does, with this array first.

    Raises `ValueError` for fewer than two axes.

    >>> import cotan as ct
    >>> ct.array([[1.0, 2.0], [3.0, 4.0]]).trace()
    Array(5.)
    """,
    "var": f"""Do what `numpy.var` does, with this array first.

    Of the array's dtype, real for complex numbers, float64 for bools and integers. {_OUT}

    >>> import cotan as ct
    >>> ct.array([1.0, 3.0]).var(ddof=1)
    Array(2.)
    """,
    # Of memory: of an array that is not active.
    "dump": """Do what `ndarray.dump` does, for an array that is not active.

    Raises `NotDifferentiableError` for an active one: no gradient reaches a file.

    >>> import cotan as ct, numpy as np, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x")
    >>> ct.array([1.0, 2.0]).dump(path)
    >>> np.load(path, allow_pickle=True)
    array([1., 2.])
    """,
    "dumps": """Do what `ndarray.dumps` does, for an array that is not active.

    Raises `NotDifferentiableError` for an active one: no gradient reaches bytes.

    >>> import cotan as ct, pickle
    >>> pickle.loads(ct.array([1.0, 2.0]).dumps())
    array([1., 2.])
    """,
    "tobytes": """Do what `ndarray.tobytes` does, for an array that is not active.

    Raises `NotDifferentiableError` for an active one: no gradient reaches bytes.

    >>> import cotan as ct
    >>> ct.array([1, 2], dtype="uint8").tobytes()
    b'\\x01\\x02'
    """,
    "tofile": """Do what `ndarray.tofile` does, for an array that is not active.

    Raises `NotDifferentiableError` for an active one: no gradient reaches a file.

    >>> import cotan as ct, numpy as np, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x")
    >>> ct.array([1.0, 2.0]).tofile(path)
    >>> np.fromfile(path)
    array([1., 2.])
    """,
    # Properties.
    "flags": """What NumPy says of an array's memory: that of an ndarray that is made like this one.

    Raises `KeyError` for the name of a flag that there is not.

    >>> import cotan as ct
    >>> ct.array([[1.0], [2.0]]).flags["C_CONTIGUOUS"]
    True
    """,
    "mT": """The last two axes exchanged, a view.

    Raises `ValueError` for fewer than two axes.

    >>> import cotan as ct
    >>> ct.array([[1.0, 2.0]]).mT
    Array([[1.],
           [2.]])
    """,
    "strides": """Bytes between neighbours along each axis, as NumPy would have them.

    >>> import cotan as ct
    >>> ct.array([[1.0, 2.0]]).strides
    (16, 8)
    """,
    "flat": """All elements along one axis, to read and to write.

    >>> import cotan as ct
    >>> x = ct.array([[1.0, 2.0], [3.0, 4.0]])
    >>> x.flat[2] = 5.0
    >>> x
    Array([[1., 2.],
           [5., 4.]])
    """,
}
