"""The structure of kernels as text: kernels with equal text differ in hyperparameters alone."""

import dataclasses
import re
from typing import Any

import equinox as eqx

from kernelpde.io import digest
from kernelpde.kernels._frozen import Frozen


def structure_of(tree: Any) -> str:
    """Return the classes, shapes and static settings of a tree of kernels as text.

    Frozen numbers are part of the structure, because files contain trainable ones only.
    """
    if isinstance(tree, Frozen):
        frozen = digest([leaf for leaf in tree.frozen.leaves if eqx.is_array(leaf)])
        structures = f"{structure_of(tree.kernel)}, {structure_of(tree.trainable)}"
        return f"Frozen({structures}, frozen {frozen})"
    if eqx.is_array(tree):
        return str(list(tree.shape))
    if isinstance(tree, tuple | list):
        return f"({', '.join(map(structure_of, tree))})"
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = dataclasses.fields(tree)
        values = [f"{f.name}={structure_of(getattr(tree, f.name, None))}" for f in fields]
        return f"{type(tree).__name__}({', '.join(values)})"
    name = getattr(tree, "__qualname__", None)
    # Addresses differ from process to process.
    return name if isinstance(name, str) else re.sub(r" at 0x[0-9a-fA-F]+", "", repr(tree))
