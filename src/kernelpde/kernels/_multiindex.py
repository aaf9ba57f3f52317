"""Multi-indices of partial derivatives: one order per coordinate."""

import operator
from collections.abc import Iterator
from itertools import product
from math import comb, prod
from typing import TypeAlias

MultiIndex: TypeAlias = tuple[int, ...]
OrderPair: TypeAlias = tuple[MultiIndex, MultiIndex]
"""Orders (alpha, beta) of the mixed partial derivative in x and in y."""


def add(alpha: MultiIndex, beta: MultiIndex) -> MultiIndex:
    return tuple(map(operator.add, alpha, beta))


def subtract(alpha: MultiIndex, beta: MultiIndex) -> MultiIndex:
    return tuple(map(operator.sub, alpha, beta))


def raise_order(alpha: MultiIndex, axis: int) -> MultiIndex:
    """Return the multi-index of one more derivative in a coordinate."""
    return (*alpha[:axis], alpha[axis] + 1, *alpha[axis + 1 :])


def sub_indices(alpha: MultiIndex) -> Iterator[MultiIndex]:
    """Iterate over the multi-indices that are componentwise at most `alpha`."""
    return product(*(range(a + 1) for a in alpha))


def binomial(alpha: MultiIndex, beta: MultiIndex) -> int:
    return prod(map(comb, alpha, beta))
