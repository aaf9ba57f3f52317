"""Learned hyperparameters on disk: JSON, exact to the last bit, applied to any problem they fit."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.errors import InputError
from kernelpde.functionals import Balanced, Mixed
from kernelpde.kernels import AbstractKernel
from kernelpde.problem._problem import Problem

_FORMAT, _VERSION = "kernelpde kernels", 1
_NOISE = "noise."


def save_kernels(path: str | Path, problem: Problem) -> None:
    """Write the hyperparameters of a problem's kernels, and noise that was learned.

    The file holds numbers by field and name, as the kernels keep them: logarithms of positive ones.

    **Arguments:**

    - `path`: a file, replaced if it exists.
    - `problem`: for example `learned.problem`.
    """
    target = Path(path)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "fields": [field.name for field in problem.fields],
        "numbers": {name: leaf.tolist() for name, leaf in kernel_numbers(problem).items()},
    }
    # Written beside and moved: a reader never sees half a file.
    beside = target.with_name(target.name + ".part")
    beside.write_text(json.dumps(content, indent=2) + "\n")
    beside.replace(target)


def load_kernels(path: str | Path, problem: Problem) -> Problem:
    """The same problem with the hyperparameters from a file.

    **Arguments:**

    - `path`: written by `save_kernels`.
    - `problem`: with the same fields and kernels of the same make, whatever their numbers; its
      conditions may differ.
    """
    stored = _read(Path(path))
    names = [field.name for field in problem.fields]
    if stored.get("fields") != names:
        raise InputError(
            f"{path}: holds kernels of the fields {stored.get('fields')}; expected {names}."
        )
    numbers = stored.get("numbers")
    if not isinstance(numbers, dict):
        raise InputError(f"{path}: holds no hyperparameters.")
    try:
        return with_kernel_numbers(problem, numbers)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def with_kernel_numbers(problem: Problem, numbers: Mapping[str, Any]) -> Problem:
    """The same problem with other numbers in its kernels, by the names of `kernel_numbers`."""
    present = kernel_numbers(problem)
    if set(numbers) != set(present):
        raise InputError(
            f"its hyperparameters do not fit these kernels; got {sorted(numbers)}, expected "
            f"{sorted(present)}."
        )
    arrays = {}
    for name, leaf in present.items():
        try:
            arrays[name] = np.asarray(numbers[name], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} does not hold numbers.") from error
        if arrays[name].shape != leaf.shape or not np.isfinite(arrays[name]).all():
            raise InputError(
                f"{name} must hold finite numbers of shape {leaf.shape}; "
                f"got shape {arrays[name].shape}."
            )

    def replaced(where, leaf):
        return jnp.asarray(arrays[_name(where)]) if eqx.is_inexact_array(leaf) else leaf

    noises = [arrays.get(f"{_NOISE}{condition.name}") for condition in problem.conditions]
    found = problem.with_kernels(jax.tree_util.tree_map_with_path(replaced, _trees(problem)))
    return found.with_noises([None if noise is None else jnp.asarray(noise) for noise in noises])


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: cannot be read; {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{path}: is not a file of kernels; it is not JSON.") from error
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        raise InputError(f"{path}: is not a file of kernels.")
    if stored.get("version") != _VERSION:
        raise InputError(
            f"{path}: has version {stored.get('version')}; this program reads {_VERSION}."
        )
    return stored


def kernel_numbers(problem: Problem) -> dict[str, np.ndarray]:
    """The hyperparameters of a problem as its kernels keep them, logarithms of positive ones.

    Noise that is learned is among them.
    """
    found = {
        _name(where): np.asarray(leaf)
        for where, leaf in jax.tree_util.tree_leaves_with_path(_trees(problem))
        if eqx.is_inexact_array(leaf)
    }
    for condition, noise in zip(problem.conditions, problem.noises, strict=True):
        if noise is not None:
            found[f"{_NOISE}{condition.name}"] = np.asarray(noise)
    return found


def _trees(problem: Problem) -> Mixed | tuple[AbstractKernel, ...]:
    """The kernels; how large fields are beside each other is no part of them."""
    kernels = problem.kernels
    return kernels.latents if isinstance(kernels, Balanced) else kernels


def _name(where) -> str:
    return ".".join(str(getattr(key, "name", getattr(key, "idx", key))) for key in where)
