"""The structure of kernels as text: kernels with equal text differ in hyperparameters alone."""

import dataclasses
import inspect
import re

import equinox as eqx
from jaxtyping import PyTree


def structure_of(tree: PyTree) -> str:
    """Return the classes, shapes and static settings of a tree of kernels as text.

    Frozen numbers are part of the structure, because files contain trainable ones only.
    """
    if eqx.is_array(tree):
        return str(list(tree.shape))
    if isinstance(tree, tuple | list):
        return f"({', '.join(map(structure_of, tree))})"
    if dataclasses.is_dataclass(tree) and not inspect.isclass(tree):
        fields = dataclasses.fields(tree)
        values = [f"{f.name}={structure_of(getattr(tree, f.name, None))}" for f in fields]
        return f"{type(tree).__name__}({', '.join(values)})"
    name = getattr(tree, "__qualname__", None)
    # Addresses differ from process to process.
    return name if isinstance(name, str) else re.sub(r" at 0x[0-9a-fA-F]+", "", repr(tree))
