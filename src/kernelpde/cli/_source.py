"""Problems by name: gallery examples and Python files."""

import importlib.util
import inspect
import sys
import traceback
from pathlib import Path

import numpy as np

from kernelpde.checking import did_you_mean
from kernelpde.errors import InputError, KernelPDEError
from kernelpde.gallery import EXAMPLES, Example
from kernelpde.linear_solvers import DEFAULT_NUGGET
from kernelpde.problem import Problem, problem_grid

_OPTIONAL = {
    "points": {},
    "training": None,
    "sampling": "halton",
    "nugget": DEFAULT_NUGGET,
    "references": {},
    "parameters": {},
    "windows": 1,
    "grid": None,
}
"""Optional variables of a Python file with their defaults."""


def load_example(source: str, lengthscale: float | None, seed: int) -> Example:
    """Return a gallery problem by name, or the problem that a Python file defines."""
    if source.endswith(".py"):
        if lengthscale is not None:
            raise InputError(
                f"--lengthscale is for gallery problems; {source} has its own kernels."
            )
        return _load_file(Path(source))
    if source not in EXAMPLES:
        raise InputError(
            f"Unknown problem {source!r}; expected one of {', '.join(EXAMPLES)}, or a file that "
            f"ends in .py.{did_you_mean(source, EXAMPLES)}"
        )
    factory = EXAMPLES[source]
    parameters = inspect.signature(factory).parameters
    if lengthscale is not None and "lengthscale" not in parameters:
        raise InputError(f"--lengthscale does not apply to {source}.")
    settings = {"lengthscale": lengthscale, "seed": seed}
    return factory(**{n: v for n, v in settings.items() if n in parameters and v is not None})


def _load_file(path: Path) -> Example:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file.")
    spec = importlib.util.spec_from_file_location(f"kernelpde_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except KernelPDEError:
        raise
    except SyntaxError as error:
        file = Path(error.filename or path).name
        raise InputError(
            f"{file}: syntax error in line {error.lineno}: {error.msg}: "
            f"{(error.text or '').strip()}"
        ) from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == spec.origin]
        raise InputError(f"{path}: {type(error).__name__} in line {lines[-1]}: {error}") from error
    example = getattr(module, "example", None)
    if isinstance(example, Example):
        return example
    problem = getattr(module, "problem", None)
    if not isinstance(problem, Problem):
        raise InputError(
            f"{path}: must define `problem`, a kernelpde.Problem; got "
            f"{'no such variable' if problem is None else type(problem).__name__}. Optional "
            f"variables: {', '.join(_OPTIONAL)}."
        )
    values = {name: getattr(module, name, default) for name, default in _OPTIONAL.items()}
    grid = values["grid"]
    return Example(
        path.stem,
        (module.__doc__ or path.name).strip().splitlines()[0],
        problem,
        values["points"],
        values["references"],
        problem_grid(problem).points if grid is None else np.asarray(grid, dtype=float),
        values["points"] if values["training"] is None else values["training"],
        values["sampling"],
        values["parameters"],
        values["nugget"],
        num_windows=values["windows"],
    )
