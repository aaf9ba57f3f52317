"""Nonlinear PDEs, PDE systems and inverse problems with Gaussian processes.

The most used names are available here. Further names are in `kernelpde.kernels`, `geometry`,
`learning`, `linear_solvers`, `inference` and `gallery`. The type stub next to this file lists the
public names, and each is imported on first use. `kernelpde --help` therefore does not import JAX.
"""

import ast as _ast
from importlib import import_module as _import_module
from importlib.metadata import version as _version
from pathlib import Path as _Path

__version__ = _version("kernelpde")

_MODULE_OF = {
    alias.name: node.module
    for node in _ast.parse(_Path(__file__).with_suffix(".pyi").read_text()).body
    if isinstance(node, _ast.ImportFrom)
    for alias in node.names
}

__all__ = sorted(("__version__", *_MODULE_OF))  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'kernelpde' has no attribute {name!r}")
    if module == __name__:
        return _import_module(f"{module}.{name}")
    globals()[name] = getattr(_import_module(module), name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
