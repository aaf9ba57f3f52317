"""Problems with known solutions: those of the paper, and more."""

from collections.abc import Callable

from kernelpde.gallery._elliptic import elliptic as elliptic
from kernelpde.gallery._elliptic import elliptic_additive as elliptic_additive
from kernelpde.gallery._example import Example as Example
from kernelpde.gallery._example import product_grid as product_grid

EXAMPLES: dict[str, Callable[..., Example]] = {
    "elliptic": elliptic,
    "elliptic-additive": elliptic_additive,
}
