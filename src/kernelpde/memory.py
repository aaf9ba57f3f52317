"""Memory requirements of computations, compared with the memory of the machine."""

import os

from kernelpde.errors import InputError

CACHE_BYTES = 8_388_608
"""Bytes of the temporaries of a tile of work, about the size of a cache. Larger tiles are slower,
because allocating memory costs more than the arithmetic. Smaller ones have more overhead."""

LIVE_ARRAYS = 6
"""Number of arrays of the size of a tile that XLA allocates at the same time, measured. Half of it
makes tiles too large for the cache, double doubles their number."""

_USABLE_FRACTION = 0.9
"""Fraction of the physical memory that a computation may require."""


def physical_bytes() -> float | None:
    """Return the memory of this machine, or None if the system does not report it."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):  # pragma: no cover
        return None


def usable_bytes() -> float:
    """Return the memory that a computation may require, infinite if it is not reported."""
    available = physical_bytes()
    return float("inf") if available is None else _USABLE_FRACTION * available


def require_bytes(label: str, required: float, advice: str) -> None:
    """Raise an `InputError` if a computation requires more memory than the machine has."""
    available = physical_bytes()
    if available is not None and required > usable_bytes():
        raise InputError(
            f"{label} need about {required / 1e9:.3g} GB, and this machine has "
            f"{available / 1e9:.3g} GB. {advice}"
        )
