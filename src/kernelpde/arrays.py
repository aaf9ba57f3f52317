"""What counts as numbers where a user gives them."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from jaxtyping import ArrayLike

Numbers: TypeAlias = ArrayLike | Sequence[Any]
"""A number, an array of JAX or numpy, or nested lists of numbers."""
