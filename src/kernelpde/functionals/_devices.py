"""Computation on many rows, distributed over devices.

Rows are independent of each other, and each device processes an equal number of them. Vectors with
one number per row are replicated on all devices.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from kernelpde.checking import check_instance
from kernelpde.errors import InputError
from kernelpde.kernels import num_rows, pad_rows

_MIN_GROUPS = 8
"""Minimum number of groups for sums over rows. Results are identical on 1 to 8 devices."""


def flatten_mesh(mesh: Any) -> Mesh | None:
    """Return the devices of a mesh along one axis, with automatic sharding."""
    if mesh is None:
        return None
    check_instance("mesh", "it", mesh, Mesh, 'a mesh such as jax.make_mesh((8,), ("rows",))')
    if not mesh.devices.size:
        raise InputError("mesh: it has no devices.")
    return Mesh(mesh.devices.reshape(-1), ("rows",), axis_types=(AxisType.Auto,))


def map_rows(
    function: Callable[..., PyTree], rows: PyTree, *replicated: PyTree, mesh: Mesh | None
) -> PyTree:
    """Return `function(rows, *replicated)`, with the rows distributed over devices.

    **Arguments:**

    - `function`: function whose results have one entry per row.
    - `rows`: pytree with one leading axis.
    - `replicated`: arguments that are the same for all rows.
    - `mesh`: devices along one axis, `None` for one device.
    """
    if mesh is None:
        return function(rows, *replicated)
    count = num_rows(rows)
    values = _shard_map(function, pad_rows(rows, mesh.size), replicated, mesh)
    return jax.tree.map(lambda leaf: leaf[:count], replicate(values, mesh))


def num_groups(mesh: Mesh | None) -> int:
    """Return the number of groups for sums over rows, which is equal for 1, 2, 4 and 8 devices.

    The order of summation, and hence the result, is then independent of the number of devices.
    """
    devices = 1 if mesh is None else mesh.size
    return devices * -(-_MIN_GROUPS // devices)


def sum_groups(
    function: Callable[..., PyTree], groups: PyTree, *replicated: PyTree, mesh: Mesh | None
) -> PyTree:
    """Return the sum of `function(group, *replicated)` over the leading axis of `groups`."""

    def map_groups(local_groups: PyTree, *arguments: PyTree) -> PyTree:
        return jax.lax.map(lambda group: function(group, *arguments), local_groups)

    if mesh is None:
        values = map_groups(groups, *replicated)
    else:
        values = replicate(_shard_map(map_groups, groups, replicated, mesh), mesh)
    return jax.tree.map(_pairwise_sum, values)


def _pairwise_sum(values: Array) -> Array:
    """Sum over the leading axis, neighbors first."""
    while len(values) > 1:
        remainder = values[-1:] if len(values) % 2 else values[:0]
        pairs = values[0 : len(values) - len(remainder) : 2] + values[1::2]
        values = jnp.concatenate([pairs, remainder])
    return values[0]


def _shard_map(
    function: Callable[..., PyTree], rows: PyTree, replicated: tuple[PyTree, ...], mesh: Mesh
) -> PyTree:
    (axis,) = mesh.axis_names
    by_rows, everywhere = PartitionSpec(axis), PartitionSpec()
    # Kernels may contain functions, which are no valid arguments of a sharded function.
    arrays, static = eqx.partition(replicated, eqx.is_array)
    in_specs = (jax.tree.map(lambda _: by_rows, rows), jax.tree.map(lambda _: everywhere, arrays))
    sharded = jax.shard_map(
        lambda local_rows, arrays: function(local_rows, *eqx.combine(arrays, static)),
        mesh=mesh,
        in_specs=in_specs,
        out_specs=by_rows,
    )
    # Otherwise the compiler also shards other computations on these rows.
    return sharded(replicate(rows, mesh), arrays)


def replicate(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Replicate all arrays of a tree on all devices."""
    if mesh is None:
        return tree
    arrays, static = eqx.partition(tree, eqx.is_array)
    sharding = NamedSharding(mesh, PartitionSpec())
    return eqx.combine(jax.lax.with_sharding_constraint(arrays, sharding), static)
