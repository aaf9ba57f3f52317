"""Tables of Bell polynomials of the derivatives of a function s, for chain rules.

Missing derivatives are zero. The first entry of the list of derivatives is s itself.
"""

from collections.abc import Iterable
from math import comb

from jaxtyping import Array

from kernelpde.kernels._optional import sum_optional


def partial_bell(s: list[Array], max_order: int) -> list[list[Array | float | None]]:
    """Return the table of B_{n,k}(s', s'', ...), `None` if zero. Missing derivatives are zero."""
    table: list[list[Array | float | None]] = [[1.0]]
    for n in range(1, max_order + 1):
        row: list[Array | float | None] = [None]
        for k in range(1, n + 1):
            orders = range(1, min(n - k + 1, len(s) - 1) + 1)
            factors = ((i, table[n - i][k - 1]) for i in orders)
            row.append(
                sum_optional(comb(n - 1, i - 1) * s[i] * f for i, f in factors if f is not None)
            )
        table.append(row)
    return table


def complete_bell(s: list[Array], max_order: int, rate: float) -> list[Array | float]:
    """Return Σ_k cᵏ B_{n,k}(s', s'', ...) for all n up to `max_order`, with c = `rate`."""
    table: list[Array | float] = [1.0]
    for n in range(1, max_order + 1):
        orders = range(1, min(n, len(s) - 1) + 1)
        terms = (rate * comb(n - 1, i - 1) * s[i] * table[n - i] for i in orders)
        table.append(sum_optional(terms))
    return table


def multiply(factors: Iterable[Array | float | None], start: Array) -> Array:
    """Return a product without its factors of 1, which only cost compilation."""
    product = start
    for factor in factors:
        if factor is not None and not (isinstance(factor, float) and factor == 1.0):
            product = product * factor
    return product
