"""Problems with known solutions: those of the paper, and more."""

from collections.abc import Callable
from functools import partial

from kernelpde.checking import did_you_mean
from kernelpde.errors import InputError
from kernelpde.gallery._boundaries import coupled as coupled
from kernelpde.gallery._boundaries import robin as robin
from kernelpde.gallery._elliptic import elliptic as elliptic
from kernelpde.gallery._elliptic import elliptic_additive as elliptic_additive
from kernelpde.gallery._example import Example as Example
from kernelpde.gallery._example import product_grid as product_grid
from kernelpde.gallery._fronts import burgers as burgers
from kernelpde.gallery._fronts import eikonal as eikonal
from kernelpde.gallery._fronts import layer as layer
from kernelpde.gallery._gray_scott import gray_scott as gray_scott
from kernelpde.gallery._inverse import darcy as darcy
from kernelpde.gallery._inverse import gray_scott_rates as gray_scott_rates
from kernelpde.gallery._inverse import source as source
from kernelpde.gallery._inverse import string as string
from kernelpde.gallery._large import darcy_large as darcy_large
from kernelpde.gallery._large import elliptic_3d as elliptic_3d
from kernelpde.gallery._large import elliptic_matern as elliptic_matern
from kernelpde.gallery._pages import Heading as Heading
from kernelpde.gallery._pages import headings as headings
from kernelpde.gallery._pages import page as page
from kernelpde.gallery._references import ColeHopf as ColeHopf
from kernelpde.gallery._schrodinger import schrodinger as schrodinger

_GROUPS = {
    "elliptic": (
        "elliptic",
        "elliptic-additive",
        "elliptic-3d",
        "elliptic-matern",
        "robin",
        "coupled",
    ),
    "waves and Helmholtz": ("schrodinger",),
    "reaction and patterns": ("gray-scott", "gray-scott-a", "gray-scott-b", "gray-scott-c"),
    "fluids": ("burgers",),
    "geometry": ("eikonal",),
    "heat and diffusion": ("layer",),
    "inverse problems": (
        "darcy",
        "darcy-3x",
        "darcy-large",
        "gray-scott-rates",
        "source",
        "string",
    ),
}
"""Where examples belong that are not pages of their own, most of them with settings."""


def groups() -> dict[str, tuple[str, ...]]:
    """The names of all examples by group."""
    found = {group: list(names) for group, names in _GROUPS.items()}
    for name, heading in headings().items():
        found.setdefault(heading.group, []).append(name)
    return {group: tuple(names) for group, names in sorted(found.items())}


class _Examples(dict[str, Callable[..., Example]]):
    """Examples by name; one that does not exist is told from those that do."""

    def __missing__(self, name: str) -> Callable[..., Example]:
        raise InputError(
            f"Unknown problem {name!r}; there are {', '.join(self)}.{did_you_mean(name, self)}"
        )


EXAMPLES: dict[str, Callable[..., Example]] = _Examples(
    {
        "elliptic": elliptic,
        "elliptic-additive": elliptic_additive,
        "elliptic-3d": elliptic_3d,
        "elliptic-matern": elliptic_matern,
        "schrodinger": schrodinger,
        "gray-scott": gray_scott,
        "gray-scott-a": partial(gray_scott, case="gray-scott-a"),
        "gray-scott-b": partial(gray_scott, case="gray-scott-b"),
        "gray-scott-c": partial(gray_scott, case="gray-scott-c"),
        "robin": robin,
        "coupled": coupled,
        "burgers": burgers,
        "eikonal": eikonal,
        "layer": layer,
        "darcy": darcy,
        "darcy-3x": partial(darcy, observations=180),
        "darcy-large": darcy_large,
        "gray-scott-rates": gray_scott_rates,
        "source": source,
        "string": string,
    }
    | {name: page(name) for name in headings()}
)
