"""What is seen of a field at other points, from functionals of it nearby.

Of a field with a Matern kernel little more can be known at a point than what its values and
derivatives nearby say: the conditional mean given those is found from a small Gram matrix, one for
several points that are close together.
"""

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from kernelpde.arrays import array
from kernelpde.compiling import compiled
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Kernels, Term, jets
from kernelpde.linear_solvers._factor import one_by_one, small_factor, small_gram, small_solve
from kernelpde.linear_solvers._metric import Metric
from kernelpde.linear_solvers._supernodes import leaves_of, near_to
from kernelpde.linear_solvers._trees import tree_of

_ROUND = 64
"""Numbers of functionals nearby are filled up to multiples of this."""


class Nearby(eqx.Module):
    """Points in groups, and what each group sees.

    **Attributes:**

    - `members`: the numbers of the points of each group, filled up with the number of points.
    - `seen`: the numbers of the functionals nearby, filled up with the number of functionals.
    """

    members: Int[Array, "n c"]
    seen: Int[Array, "n r"]


def nearby(
    points: Float[np.ndarray, "P d"], others: Float[np.ndarray, "N d"], reach: float
) -> Nearby:
    """Groups of points, with the functionals at `others` that are within reach of any of them."""
    groups = leaves_of(points, np.arange(len(points)), reach)
    tree = tree_of(others)
    seen = [near_to(tree, others, points[group], reach) for group in groups]
    size = max(1, *(len(found) for found in seen))
    size += -size % _ROUND
    members = np.full((len(groups), max(map(len, groups))), len(points), dtype=np.int32)
    rows = np.full((len(groups), size), len(others), dtype=np.int32)
    for n, (group, found) in enumerate(zip(groups, seen, strict=True)):
        members[n, : len(group)] = group
        rows[n, : len(found)] = found
    return Nearby(array(members), array(rows))


def local_jets(
    kernels: Kernels,
    functionals: Functionals,
    values: Float[Array, " N1"],
    jitter: float,
    points: Float[Array, "P d"],
    near: Nearby,
    terms: tuple[Term, ...],
    mesh: Mesh | None = None,
) -> Float[Array, "P T"]:
    """Jet entries at points, given what functionals nearby see.

    **Arguments:**

    - `kernels`: one per field.
    - `functionals`: ψ, and one more that is zero.
    - `values`: ψu.
    - `jitter`: added to the diagonal of small Gram matrices, relative to it.
    - `points`: where.
    - `near`: in groups.
    - `terms`: which entries.
    - `mesh`: devices that share the groups.
    """
    longer = jnp.concatenate([points, points[-1:]])

    @eqx.filter_checkpoint
    def one(numbers, model, psi, psi_u, places) -> Float[Array, "c T"]:
        members, seen = numbers
        matrix = small_gram(model, psi, seen, jitter)
        weights = small_solve(matrix, small_factor(matrix), psi_u[seen])
        mine = psi[seen].scaled(weights)
        return jets(model, places[members], terms, [mine])

    whole = (kernels, functionals, values, longer)
    found = one_by_one(one, (near.members, near.seen), *whole, mesh=mesh)
    total = jnp.zeros((len(longer), len(terms)))
    return total.at[near.members].set(found)[:-1]


_evaluate = compiled(local_jets)


class Local(eqx.Module):
    """A solution given by what functionals see of it.

    **Attributes:**

    - `functionals`: ψ, and one more that is zero.
    - `values`: ψu.
    - `metric`: in which distances are taken.
    - `reach`: within which distance functionals matter.
    - `jitter`: added to the diagonal of small Gram matrices, relative to it.
    """

    functionals: Functionals
    values: Float[Array, " N1"]
    metric: Metric
    reach: float
    jitter: float

    def jets(
        self, kernels: Kernels, points: Float[Array, "P d"], terms: tuple[Term, ...]
    ) -> Float[Array, "P T"]:
        """Jet entries at points."""
        if isinstance(points, jax.core.Tracer) or isinstance(
            self.functionals.points, jax.core.Tracer
        ):
            raise InputError(
                "A solution of the sparse solver looks for neighbors of the points: inside of a "
                "transformation they have to be known. Make points and discretization outside of "
                "it, not as its arguments; or use Dense() or LowRank()."
            )
        others = self.metric(np.asarray(self.functionals.points)[:-1])
        near = nearby(self.metric(np.asarray(points)), others, self.reach)
        return _evaluate(kernels, self.functionals, self.values, self.jitter, points, near, terms)
