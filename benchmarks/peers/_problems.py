"""The problems that all methods are given, by the names of the gallery."""

from functools import cache

import jax

jax.config.update("jax_enable_x64", True)

from kernelpde.gallery import EXAMPLES, Example  # noqa: E402

PROBLEMS = (
    "elliptic",
    "burgers",
    "eikonal",
    "gray-scott",
    "kdv",
    "allen-cahn",
    "kovasznay",
    "poisson-flower",
    "poisson-ball",
    "l-shape",
)


@cache
def example_of(name: str) -> Example:
    return EXAMPLES[name]()
