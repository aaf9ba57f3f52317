"""Work on many rows, shared among devices.

Rows are independent of each other: each device takes an equal part of them. Vectors with one number
per row are whole on every device.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from kernelpde.checking import instance
from kernelpde.errors import InputError

_GROUPS = 8
"""Minimum number of groups in which sums over rows are formed, whatever the number of devices:
on up to as many devices results are the same to the bit."""


def one_axis(mesh: Any) -> Mesh | None:
    """The devices of a mesh along one axis, with the compiler free to move what is on them."""
    if mesh is None:
        return None
    instance("mesh", "it", mesh, Mesh, 'a mesh such as jax.make_mesh((8,), ("rows",))')
    if not mesh.devices.size:
        raise InputError("mesh: it has no devices.")
    return Mesh(mesh.devices.reshape(-1), ("rows",), axis_types=(AxisType.Auto,))


def rows_shared(function: Callable[..., Any], rows: Any, *whole: Any, mesh: Mesh | None) -> Any:
    """`function(rows, *whole)`, whose results have one entry per row, computed in parts.

    **Arguments:**

    - `function`: of rows and of what is the same for all.
    - `rows`: a pytree with one leading axis.
    - `whole`: what every device has whole.
    - `mesh`: the devices, along one axis; `None` for one device.
    """
    if mesh is None:
        return function(rows, *whole)
    count = _count(rows)
    found = _mapped(function, padded(rows, mesh.size), whole, mesh)
    return jax.tree.map(lambda leaf: leaf[:count], everywhere(found, mesh))


def group_count(mesh: Mesh | None) -> int:
    """In how many groups rows are to be cut that are added up: the same for 1, 2, 4 or 8 devices.

    Sums are then formed in the same order, and results do not depend on the number of devices.
    """
    devices = 1 if mesh is None else mesh.size
    return devices * -(-_GROUPS // devices)


def groups_summed(function: Callable[..., Any], groups: Any, *whole: Any, mesh: Mesh | None) -> Any:
    """The sum of `function(group, *whole)` over the leading axis of `groups`."""

    def part(mine: Any, *everyone: Any) -> Any:
        return jax.lax.map(lambda one: function(one, *everyone), mine)

    if mesh is None:
        found = part(groups, *whole)
    else:
        found = everywhere(_mapped(part, groups, whole, mesh), mesh)
    return jax.tree.map(_in_pairs, found)


def _in_pairs(parts: Array) -> Array:
    """A sum over the leading axis, of neighbors first."""
    while len(parts) > 1:
        left = parts[-1:] if len(parts) % 2 else parts[:0]
        parts = jnp.concatenate([parts[0 : len(parts) - len(left) : 2] + parts[1::2], left])
    return parts[0]


def padded(rows: Any, multiple: int) -> Any:
    """Rows repeated at the end until their number can be divided."""
    extra = -_count(rows) % multiple
    if not extra:
        return rows

    def longer(leaf: Array) -> Array:
        # The last row again keeps the padding inside the domain, where everything is finite.
        return jnp.concatenate([leaf, jnp.broadcast_to(leaf[-1:], (extra, *leaf.shape[1:]))])

    return jax.tree.map(longer, rows)


def _count(rows: Any) -> int:
    return jax.tree.leaves(rows)[0].shape[0]


def _mapped(function: Callable[..., Any], rows: Any, whole: tuple[Any, ...], mesh: Mesh) -> Any:
    (axis,) = mesh.axis_names
    apart, same = PartitionSpec(axis), PartitionSpec()
    # Kernels may hold functions, which are no arguments.
    arrays, rest = eqx.partition(whole, eqx.is_array)
    specs = (jax.tree.map(lambda _: apart, rows), jax.tree.map(lambda _: same, arrays))
    shared = jax.shard_map(
        lambda mine, everyone: function(mine, *eqx.combine(everyone, rest)),
        mesh=mesh,
        in_specs=specs,
        out_specs=apart,
    )
    # Otherwise the compiler goes on to share what comes before and what else is made of the rows.
    return shared(everywhere(rows, mesh), arrays)


def everywhere(found: Any, mesh: Mesh | None) -> Any:
    """The same with every array whole on every device."""
    if mesh is None:
        return found
    arrays, rest = eqx.partition(found, eqx.is_array)
    whole = NamedSharding(mesh, PartitionSpec())
    return eqx.combine(jax.lax.with_sharding_constraint(arrays, whole), rest)
