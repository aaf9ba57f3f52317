"""What a kernel is made of, as text: two kernels with the same text differ in numbers alone."""

import dataclasses
import re
from typing import Any

import equinox as eqx

from kernelpde.archive import digest
from kernelpde.kernels._frozen import Frozen


def make_of(tree: Any) -> str:
    """The classes, shapes and fixed settings of a kernel, or of several, without its numbers.

    Numbers that are held are part of the make: no file would bring them back.
    """
    if isinstance(tree, Frozen):
        held = [leaf for leaf in tree.held.leaves if eqx.is_array(leaf)]
        return f"Frozen({make_of(tree.kernel)}, {make_of(tree.learned)}, held {digest(held)})"
    if eqx.is_array(tree):
        return str(list(tree.shape))
    if isinstance(tree, tuple | list):
        return f"({', '.join(map(make_of, tree))})"
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = dataclasses.fields(tree)
        parts = [f"{f.name}={make_of(getattr(tree, f.name, None))}" for f in fields]
        return f"{type(tree).__name__}({', '.join(parts)})"
    name = getattr(tree, "__qualname__", None)
    # Without where it is in memory.
    return name if isinstance(name, str) else re.sub(r" at 0x[0-9a-fA-F]+", "", repr(tree))
