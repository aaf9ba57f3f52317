"""Sums in which `None` is zero: terms that vanish everywhere are never computed."""

from collections.abc import Iterable
from functools import reduce
from typing import Any


def add_optional(left: Any, right: Any) -> Any:
    """Return the sum of two terms."""
    return right if left is None else left if right is None else left + right


def subtract_optional(left: Any, right: Any) -> Any:
    """Return the difference of two terms."""
    return left if right is None else add_optional(left, -right)


def sum_optional(terms: Iterable[Any]) -> Any:
    """Return the sum of all terms, `None` if there are none."""
    return reduce(add_optional, terms, None)
