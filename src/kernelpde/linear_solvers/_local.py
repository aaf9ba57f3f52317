"""Evaluation of sparse solutions from neighboring functionals.

By the screening effect of Matern kernels, a field at a point is nearly determined by its values and
derivatives nearby. The conditional mean given these requires a small Gram matrix, which a group of
neighboring points shares.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from kernelpde.arrays import is_tracer, to_array
from kernelpde.compiling import compiled
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Prior, Term, evaluate_jets
from kernelpde.linear_solvers._factor import map_groups, small_factor, small_gram, small_solve
from kernelpde.linear_solvers._metric import ScaledCoordinates
from kernelpde.linear_solvers._supernodes import split_cells
from kernelpde.linear_solvers._trees import make_tree, neighbors_within
from kernelpde.linear_solvers._zero_rows import PADDING_MULTIPLE, pad_indices


class NeighborGroups(eqx.Module):
    """Groups of points with their neighboring functionals.

    **Attributes:**

    - `members`: indices of the points of each group, padded with the number of points.
    - `neighbors`: indices of the neighboring functionals, padded with the number of functionals.
    """

    members: Int[Array, "n c"]
    neighbors: Int[Array, "n r"]


def group_neighbors(
    points: Float[Array, "P d"],
    functionals: Functionals,
    metric: ScaledCoordinates,
    support_radius: float,
) -> NeighborGroups:
    """Group points, and collect the functionals within the support radius of each group.

    **Arguments:**

    - `points`: points to group.
    - `functionals`: functionals ψ, followed by a zero functional.
    - `metric`: coordinates in which distances are measured.
    - `support_radius`: distance within which functionals are neighbors.
    """
    scaled = metric(np.asarray(points))
    locations = metric(np.asarray(functionals.points)[:-1])
    groups = split_cells(scaled, np.arange(len(scaled)), support_radius)
    tree = make_tree(locations)
    neighbors = [
        neighbors_within(tree, locations, scaled[group], support_radius) for group in groups
    ]
    size = max(1, *map(len, neighbors))
    size += -size % PADDING_MULTIPLE
    return NeighborGroups(
        to_array(pad_indices(groups, max(map(len, groups)), len(points))),
        to_array(pad_indices(neighbors, size, len(locations))),
    )


class LocalExpansion(eqx.Module):
    """Solution represented by the values of functionals.

    **Attributes:**

    - `functionals`: functionals ψ, followed by a zero functional.
    - `values`: ψu.
    - `metric`: coordinates in which distances are measured.
    - `support_radius`: distance within which functionals are used.
    - `jitter`: relative increase of the diagonal of small Gram matrices.
    """

    functionals: Functionals
    values: Float[Array, " N1"]
    metric: ScaledCoordinates
    support_radius: float = eqx.field(static=True)
    jitter: float = eqx.field(static=True)

    def jets(
        self, prior: Prior, points: Float[Array, "P d"], terms: tuple[Term, ...]
    ) -> Float[Array, "P T"]:
        """Evaluate jet values at points."""
        if any(map(is_tracer, (points, self.functionals.points))):
            raise InputError(
                "Sparse: the neighbors of evaluation points must be known inside transformations. "
                "Create the points and the discretization outside of the transformed function and "
                "do not pass them as its arguments, or use Dense() or LowRank()."
            )
        groups = group_neighbors(points, self.functionals, self.metric, self.support_radius)
        return _evaluate(self, prior, points, groups, terms)

    def evaluate(
        self,
        prior: Prior,
        points: Float[Array, "P d"],
        groups: NeighborGroups,
        terms: tuple[Term, ...],
        mesh: Mesh | None,
    ) -> Float[Array, "P T"]:
        """Evaluate jet values at groups of points, conditioned on neighboring functionals."""
        padded_points = jnp.concatenate([points, points[-1:]])

        @eqx.filter_checkpoint
        def evaluate_group(indices, prior, functionals, values, points) -> Float[Array, "c T"]:
            members, neighbors = indices
            matrix = small_gram(prior, functionals, neighbors, self.jitter)
            weights = small_solve(matrix, small_factor(matrix), values[neighbors])
            weighted = functionals[neighbors].scale(weights)
            return evaluate_jets(prior, points[members], terms, [weighted])

        indices = (groups.members, groups.neighbors)
        operands = (prior, self.functionals, self.values, padded_points)
        jet_values = map_groups(evaluate_group, indices, *operands, mesh=mesh)
        padded = jnp.zeros((len(padded_points), len(terms)))
        return padded.at[groups.members].set(jet_values)[:-1]


@compiled
def _evaluate(
    expansion: LocalExpansion,
    prior: Prior,
    points: Float[Array, "P d"],
    groups: NeighborGroups,
    terms: tuple[Term, ...],
) -> Float[Array, "P T"]:
    return expansion.evaluate(prior, points, groups, terms, None)
