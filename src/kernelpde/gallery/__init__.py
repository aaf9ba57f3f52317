"""Example problems with reference solutions, by name in `EXAMPLES`.

They are the problems of section 5 of the paper, the pages of `gallery/pages` (one script for each
problem), and problems for tests and benchmarks. Reference solutions by spectral methods are public
too.
"""

from collections.abc import Callable
from functools import partial

from kernelpde.checking import did_you_mean
from kernelpde.errors import InputError
from kernelpde.gallery._boundaries import coupled as coupled
from kernelpde.gallery._boundaries import robin as robin
from kernelpde.gallery._chebyshev import ChebyshevCavity as ChebyshevCavity
from kernelpde.gallery._chebyshev import ChebyshevDarcy as ChebyshevDarcy
from kernelpde.gallery._chebyshev import ChebyshevSquare as ChebyshevSquare
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
from kernelpde.gallery._pages import page as page
from kernelpde.gallery._pages import page_summaries as page_summaries
from kernelpde.gallery._references import ColeHopf as ColeHopf
from kernelpde.gallery._references import CosineSeries as CosineSeries
from kernelpde.gallery._references import FourierSeries as FourierSeries
from kernelpde.gallery._references import RegularizedDistance as RegularizedDistance
from kernelpde.gallery._references import SplitStep as SplitStep
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
"""Groups of the examples that are not pages; most of them have settings."""


def example_groups() -> dict[str, tuple[str, ...]]:
    """Return the names of all examples by group."""
    groups = {group: list(names) for group, names in _GROUPS.items()}
    for name, heading in page_summaries().items():
        groups.setdefault(heading.group, []).append(name)
    return {group: tuple(names) for group, names in sorted(groups.items())}


class _Examples(dict[str, Callable[..., Example]]):
    """Examples by name, with suggestions for unknown names."""

    def __missing__(self, name: str) -> Callable[..., Example]:
        raise InputError(
            f"Unknown problem {name!r}; expected one of {', '.join(self)}."
            f"{did_you_mean(name, self)}"
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
    | {name: page(name) for name in page_summaries()}
)
