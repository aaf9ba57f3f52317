"""A sparse triangular factor of the inverse of a Gram matrix.

Of all U with a given pattern, upper triangular in the order of elimination, the one for which
N(0, (U Uᵀ)⁻¹) is closest to N(0, K) in the Kullback-Leibler divergence has the columns

    U_{s,j} = K_ss⁻¹ e_j / √(e_jᵀ K_ss⁻¹ e_j),

s being the rows that column j sees (Schäfer, Katzfuss and Owhadi 2021). With K_ss = L Lᵀ in the
order of elimination these are columns of L⁻ᵀ, and one small Cholesky factor gives all columns of a
supernode.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from kernelpde.functionals import Functionals, Kernels, gram, rows_shared
from kernelpde.linear_solvers._supernodes import Elimination


class Pattern(eqx.Module):
    """An elimination, on the devices. The element after the last is idle: nothing is known of it.

    **Attributes:** as for `Elimination`, and

    - `mesh`: the devices that share the small factors.
    """

    columns: tuple[Int[Array, "_ _b c"], ...]
    rows: tuple[Int[Array, "_ _b _r"], ...]
    kind: Int[Array, " s"]
    position: Int[Array, " s"]
    idle: int = eqx.field(static=True)
    mesh: Mesh | None = eqx.field(static=True, default=None)

    @property
    def entries(self) -> float:
        """Of the Gram matrices of all supernodes."""
        return sum(
            float(rows.shape[0] * rows.shape[1] * (rows.shape[2] + columns.shape[2]) ** 2)
            for rows, columns in zip(self.rows, self.columns, strict=True)
        )

    @property
    def bytes(self) -> float:
        """The memory of a factor with this pattern."""
        return sum(
            8.0 * columns.size * (rows.shape[2] + 2 * columns.shape[2])
            for rows, columns in zip(self.rows, self.columns, strict=True)
        )

    @staticmethod
    def of(found: Elimination, mesh: Mesh | None = None) -> "Pattern":
        return Pattern(
            tuple(map(jnp.asarray, found.columns)),
            tuple(map(jnp.asarray, found.rows)),
            jnp.asarray(found.kind),
            jnp.asarray(found.position),
            found.idle,
            mesh,
        )


class Factor(eqx.Module):
    """U in supernodes: K⁻¹ ≈ U Uᵀ.

    Devices share the work of making it, and then each has it whole: a triangular solve is hundreds
    of small steps one after another, and to wait for others in each would take longer than they do.

    **Attributes:**

    - `pattern`: which rows and columns.
    - `above`: for each kind of step the blocks U_{r,c} of rows before the columns.
    - `own`: the blocks U_cc.
    - `inverse`: the transposes of their inverses.
    """

    pattern: Pattern
    above: tuple[Float[Array, "_ _b _r c"], ...]
    own: tuple[Float[Array, "_ _b c c"], ...]
    inverse: tuple[Float[Array, "_ _b c c"], ...]

    @property
    def usable(self) -> Bool[Array, ""]:
        """Whether all blocks could be factored."""
        return jnp.stack([jnp.isfinite(block).all() for block in self.own]).all()

    def transposed_times(self, vector: Float[Array, " N1"]) -> tuple[Float[Array, "_ _b c"], ...]:
        """Uᵀ x, by supernodes."""
        return tuple(
            jnp.einsum("nbrc,nbr->nbc", above, vector[rows])
            + jnp.einsum("nbdc,nbd->nbc", own, vector[columns])
            for above, own, rows, columns in zip(
                self.above, self.own, self.pattern.rows, self.pattern.columns, strict=True
            )
        )

    def times(self, parts: tuple[Float[Array, "_ _b c"], ...]) -> Float[Array, " N1"]:
        """U x for x by supernodes."""
        total = jnp.zeros(self.pattern.idle + 1)
        for part, above, own, rows, columns in zip(
            parts, self.above, self.own, self.pattern.rows, self.pattern.columns, strict=True
        ):
            total = total.at[rows].add(jnp.einsum("nbrc,nbc->nbr", above, part))
            total = total.at[columns].add(jnp.einsum("nbdc,nbc->nbd", own, part))
        return total.at[-1].set(0.0)

    def precision_times(self, vector: Float[Array, " N1"]) -> Float[Array, " N1"]:
        """U Uᵀ x, about K⁻¹ x."""
        return self.times(self.transposed_times(vector))

    def covariance_times(self, vector: Float[Array, " N1"]) -> Float[Array, " N1"]:
        """(U Uᵀ)⁻¹ x, about K x, by two triangular solves."""
        return jax.lax.custom_linear_solve(
            self.precision_times,
            vector,
            lambda _, x: self._solve_transposed(self._solve(x)),
            symmetric=True,
        )

    def _solve(self, vector: Float[Array, " N1"]) -> Float[Array, " N1"]:
        """U⁻¹ x, from the last column to the first."""

        def branch(kind: int, position, state):
            left, _ = state
            rows, columns = self.pattern.rows[kind][position], self.pattern.columns[kind][position]
            own = jnp.einsum("bdc,bd->bc", self.inverse[kind][position], left[columns])
            seen = jnp.einsum("brc,bc->br", self.above[kind][position], own)
            return (
                self._filled(columns, own, self.pattern.columns),
                self._filled(rows, seen, self.pattern.rows),
            )

        def update(state, changes):
            left, found = state
            (columns, own), (rows, seen) = changes
            return left.at[rows].add(-seen), found.at[columns].set(own)

        begin = (vector, jnp.zeros_like(vector))
        return self._steps(branch, update, begin, reverse=True)[1].at[-1].set(0.0)

    def _solve_transposed(self, vector: Float[Array, " N1"]) -> Float[Array, " N1"]:
        """U⁻ᵀ x, from the first column to the last."""

        def branch(kind: int, position, found):
            rows, columns = self.pattern.rows[kind][position], self.pattern.columns[kind][position]
            seen = jnp.einsum("brc,br->bc", self.above[kind][position], found[rows])
            own = jnp.einsum("bdc,bc->bd", self.inverse[kind][position], vector[columns] - seen)
            return self._filled(columns, own, self.pattern.columns)

        def update(found, changes):
            columns, own = changes
            return found.at[columns].set(own).at[-1].set(0.0)

        return self._steps(branch, update, jnp.zeros_like(vector), reverse=False)

    def _filled(
        self,
        numbers: Int[Array, "b r"],
        values: Float[Array, "b r"],
        every: tuple[Int[Array, "_ _b _r"], ...],
    ) -> tuple[Int[Array, " L"], Float[Array, " L"]]:
        """What changes where, with as many numbers for every kind of step."""
        extra = max(one.shape[1] * one.shape[2] for one in every) - numbers.size
        return (
            jnp.pad(numbers.reshape(-1), (0, extra), constant_values=self.pattern.idle),
            jnp.pad(values.reshape(-1), (0, extra)),
        )

    def _steps(self, branch, update, state, reverse: bool):
        """`branch` says what a step changes, and `update` changes it.

        Outside of the branches: what these give back would be copied, and is to be small.
        """
        branches = [partial(branch, kind) for kind in range(len(self.above))]

        def step(state, where):
            kind, position = where
            return update(state, jax.lax.switch(kind, branches, position, state)), None

        where = (self.pattern.kind, self.pattern.position)
        return jax.lax.scan(step, state, where, reverse=reverse)[0]


def one_by_one(
    function: Callable[..., Any],
    numbers: tuple[Int[Array, "*n _"], ...],
    *whole: Any,
    mesh: Mesh | None,
) -> Any:
    """`function(numbers, *whole)` for each group of numbers by itself, on one of the devices.

    Results are whole on every device.

    Not for all of a step at once: on the CPU batched calls of LAPACK share the threads that other
    operations wait for, and two of them at the same time may wait for each other for ever.
    """

    def part(mine: tuple[Int[Array, "m _"], ...], *everyone: Any) -> Any:
        return jax.lax.map(lambda one: function(one, *everyone), mine)

    shape = numbers[0].shape[:-1]
    flat = tuple(array.reshape(-1, array.shape[-1]) for array in numbers)
    found = rows_shared(part, flat, *whole, mesh=mesh)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), found)


def small_gram(
    kernels: Kernels,
    functionals: Functionals,
    seen: Int[Array, " r"],
    jitter: float,
    added: Float[Array, " N1"] | None = None,
) -> Float[Array, "r r"]:
    """The Gram matrix of some functionals, with ones for idle ones."""
    mine = functionals[seen]
    matrix = gram(kernels, mine, mine)
    diagonal = (1.0 + jitter) * jnp.diagonal(matrix)
    if added is not None:
        diagonal = diagonal + added[seen]
    diagonal = jnp.where(seen == len(functionals) - 1, 1.0, diagonal)
    return jnp.where(jnp.eye(len(seen), dtype=bool), diagonal[:, None], matrix)


def small_factor(matrix: Float[Array, "r r"]) -> Float[Array, "r r"]:
    """Its lower Cholesky factor, which is not differentiated."""
    return jax.lax.linalg.cholesky(jax.lax.stop_gradient(matrix), symmetrize_input=False)


def small_solve(
    matrix: Float[Array, "r r"], lower: Float[Array, "r r"], rhs: Float[Array, " r"]
) -> Float[Array, " r"]:
    """K⁻¹ b from L, with the derivative -K⁻¹ ∂K K⁻¹ b + K⁻¹ ∂b."""

    def inverse(vector: Float[Array, " r"]) -> Float[Array, " r"]:
        solve = partial(jax.lax.linalg.triangular_solve, lower, left_side=True, lower=True)
        return solve(solve(vector[:, None]), transpose_a=True)[:, 0]

    found = jax.lax.stop_gradient(inverse(rhs))
    return found + inverse(rhs - matrix @ found)


def _columns(
    numbers: tuple[Int[Array, " r"], Int[Array, " c"]],
    kernels: Kernels,
    functionals: Functionals,
    added: Float[Array, " N1"],
    jitter: float,
) -> tuple[Float[Array, "r c"], Float[Array, "c c"], Float[Array, "c c"]]:
    """The columns of one supernode: U_{r,c}, U_cc and U_cc⁻ᵀ."""
    rows, columns = numbers
    seen = jnp.concatenate([rows, columns])
    lower = small_factor(small_gram(kernels, functionals, seen, jitter, added))
    unit = jnp.eye(len(seen))[:, len(rows) :]
    inverse = jax.lax.linalg.triangular_solve(
        lower, unit, left_side=True, lower=True, transpose_a=True
    )
    # Idle columns are nobody's.
    kept = jnp.where(columns == len(functionals) - 1, 0.0, 1.0)
    last = lower[len(rows) :, len(rows) :]
    return inverse[: len(rows)] * kept, inverse[len(rows) :] * kept, last * kept


def factorized(
    kernels: Kernels,
    functionals: Functionals,
    added: Float[Array, " N1"],
    jitter: float,
    pattern: Pattern,
) -> Factor:
    """U for κ(Φ, Φ) + T, supernode by supernode.

    **Arguments:**

    - `kernels`: one per field.
    - `functionals`: Φ, and one more that is zero.
    - `added`: the diagonal of T.
    - `jitter`: added to the diagonal, relative to it.
    - `pattern`: which rows each column sees.
    """
    found = [
        one_by_one(
            partial(_columns, jitter=jitter),
            numbers,
            kernels,
            functionals,
            added,
            mesh=pattern.mesh,
        )
        for numbers in zip(pattern.rows, pattern.columns, strict=True)
    ]
    above, own, inverse = zip(*found, strict=True)
    return Factor(pattern, above, own, inverse)


def precision_times(
    kernels: Kernels,
    functionals: Functionals,
    jitter: float,
    pattern: Pattern,
    vector: Float[Array, " N1"],
) -> Float[Array, " N1"]:
    """U Uᵀ x as a function of the kernels, for its derivative: U is not kept.

    The columns of a supernode add K_ss⁻¹ x_s - K_rr⁻¹ x_r, with s its rows and columns and r its
    rows: no derivative of a factor is needed.
    """
    total = jnp.zeros(pattern.idle + 1)

    @eqx.filter_checkpoint
    def one(numbers: tuple[Int[Array, " r"], Int[Array, " c"]], model, psi, x):
        rows, columns = numbers
        seen, before = jnp.concatenate([rows, columns]), len(rows)
        matrix = small_gram(model, psi, seen, jitter)
        lower = small_factor(matrix)
        both = small_solve(matrix, lower, x[seen])
        less = small_solve(matrix[:before, :before], lower[:before, :before], x[rows])
        return both[:before] - less, both[before:]

    for numbers in zip(pattern.rows, pattern.columns, strict=True):
        found = one_by_one(one, numbers, kernels, functionals, vector, mesh=pattern.mesh)
        for where, part in zip(numbers, found, strict=True):
            total = total.at[where].add(part)
    return total.at[-1].set(0.0)
