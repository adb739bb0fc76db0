"""The modules of `cotan._src` that enter the overrides of a library's module.

They are imported when that module has been: no library is imported for its rows.
"""

# The modules of `cotan._src` that enter the functions of a module, imported when that module is.
PROVIDERS = {
    "numpy": [
        *(
            "numpy.creation",
            "interpose.number_classes",
            "numpy.matrix",
            "numpy.c_methods",
        ),
        "numpy.user_subclasses",
        "numpy.nditer",
    ],
    "numpy.fft": [],
    "numpy.linalg": [],
    "numpy.ma": ["numpy.masked_array", "numpy.masked_functions"],
    "numpy.lib.stride_tricks": ["numpy.indexing"],
    "numpy.random": ["numpy.random"],
    "math": ["stdlib.math"],
    "cmath": ["stdlib.math"],
    "statistics": ["stdlib.statistics"],
    "hashlib": ["stdlib.hashlib"],
    "importlib": ["stdlib.reload"],
    "numpy.polynomial": ["numpy.polynomial"],
    "matplotlib.mlab": ["thirdparty.matplotlib_mlab"],
    "pandas.core.ops.array_ops": ["thirdparty.pandas_scalars"],
    "numba.core.registry": ["thirdparty.numba"],
    "numba.core.types.scalars": ["thirdparty.numba"],
    "numba.np.ufunc.dufunc": ["thirdparty.numba"],
    "numba.np.ufunc.gufunc": ["thirdparty.numba"],
    "numba.stencils.stencil": ["thirdparty.numba"],
    "scipy.fft": ["scipy.fft"],
    "scipy.fftpack": ["scipy.fft"],
    "scipy.integrate": [
        "scipy.integrate.quadrature",
        "scipy.integrate.ivp",
        "scipy.integrate.odeint",
        "scipy.integrate.boundary_value",
        "scipy.integrate.ode_class",
    ],
    "scipy.interpolate": [
        *(
            "scipy.interpolate.core",
            "scipy.interpolate.bsplines",
            "scipy.interpolate.fitpack",
            "scipy.interpolate.fitpack2d",
        ),
        "scipy.interpolate.rbf",
    ],
    "scipy.linalg": [
        *(
            "scipy.linalg.solve",
            "scipy.linalg.banded",
            "scipy.linalg.decompositions",
        ),
        *(
            "scipy.linalg.matrix_equations",
            "scipy.linalg.structured_matrices",
            "scipy.linalg.matrix_functions",
        ),
        *("scipy.linalg.composites", "scipy.linalg.blas"),
    ],
    "scipy.linalg.blas": ["scipy.linalg.blas"],
    "scipy.linalg.lapack": ["scipy.linalg.blas"],
    "scipy.ndimage": ["scipy.ndimage", "scipy.ndimage_distances"],
    "scipy.odr": ["scipy.odr"],
    "scipy.optimize": [
        "scipy.optimize.roots",
        "scipy.optimize.minima",
        "scipy.optimize.least_squares",
        "scipy.optimize.global_search",
        "scipy.optimize.linear_least_squares",
    ],
    "scipy.optimize.elementwise": ["scipy.optimize.elementwise"],
    "scipy.signal": [
        *(
            "scipy.signal.filtering",
            "scipy.signal.filter_design",
            "scipy.signal.lti",
            "scipy.signal.spectra",
        ),
        "scipy.signal.peaks",
    ],
    "scipy.sparse": [
        *(
            "scipy.sparse.products",
            "scipy.sparse.traced",
            "scipy.sparse.lil_dok",
            "scipy.sparse.matmul",
        ),
    ],
    "scipy.cluster.hierarchy": ["scipy.cluster"],
    "scipy.cluster.vq": ["scipy.cluster"],
    "scipy.sparse.csgraph": ["scipy.sparse.graphs"],
    "scipy.sparse.linalg._dsolve._superlu": ["scipy.sparse.superlu"],
    "scipy.sparse.linalg": [
        *("scipy.sparse.products", "scipy.sparse.traced"),
        "scipy.sparse.eigen",
    ],
    "scipy.spatial": ["scipy.spatial.distance"],
    "scipy.spatial.distance": ["scipy.spatial.distance"],
    "scipy.spatial.transform": ["scipy.spatial.rotation"],
    "scipy.special": ["special.functions"],
    "scipy.stats.qmc": ["scipy.stats.sample_statistics"],
    "scipy.stats": [
        *(
            "scipy.stats.distributions",
            "scipy.stats.sample_statistics",
            "scipy.stats.kde",
        ),
        *("scipy.stats.multivariate", "scipy.stats.correlation"),
    ],
}
