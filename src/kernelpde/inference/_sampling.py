"""Draws of unknown numbers and hyperparameters by the no-U-turn sampler, through blackjax."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from kernelpde.arrays import array
from kernelpde.checking import instance, random_key, whole_number
from kernelpde.compiling import compiled
from kernelpde.errors import InputError, SolveError
from kernelpde.gauss_newton import Solution
from kernelpde.inference._density import LogDensity, log_density
from kernelpde.inference._samples import Samples
from kernelpde.learning import Learned

_ACCEPTED = 0.95
"""The part of proposals to be accepted, by which steps get their length. In a bent density 0.8
leaves a third of the effective draws, at the same cost."""

_AT_ONCE = 10
"""Draws between two words of progress."""


@dataclass(frozen=True)
class SamplingRecord:
    """Progress of sampling.

    **Attributes:**

    - `chain`, `chains`: number of this chain, and of all chains.
    - `draw`, `draws`: number of its draws so far, and of all its draws, warm-up included.
    - `divergences`: number of divergent trajectories so far, after the warm-up.
    - `evaluations`: of density and gradient so far.
    """

    chain: int
    chains: int
    draw: int
    draws: int
    divergences: int
    evaluations: int

    def __str__(self) -> str:
        return (
            f"chain {self.chain} of {self.chains}: {self.draw} of {self.draws} draws, "
            f"{self.evaluations} gradients, {self.divergences} divergences"
        )


class _Chain(NamedTuple):
    """Where a chain is, and how its steps are adapted."""

    key: PRNGKeyArray
    state: Any
    adaptation: Any


class _Drawn(NamedTuple):
    """What some draws have led to."""

    positions: Any
    divergent: Any
    evaluations: Any


def _whitened(density: LogDensity, root: Float[Array, "p p"]) -> Callable:
    return lambda z: density(density.mode + root @ z)


@compiled
def _begun(density: LogDensity, root: Float[Array, "p p"], z: Float[Array, " p"]):
    """Density and gradient at a point."""
    from blackjax.mcmc import nuts

    return nuts.init(z, _whitened(density, root))


@compiled
def _drawn(
    density: LogDensity, root: Float[Array, "p p"], chain: _Chain, adapt: Array
) -> tuple[_Chain, _Drawn]:
    """Some more draws; the length of steps is adapted, or stays as adapted."""
    from blackjax.mcmc import nuts

    _, update, final = _step_lengths()
    kernel: Callable = nuts.build_kernel()
    function = _whitened(density, root)
    metric = jnp.ones(len(density.mode))

    def draw(chain: _Chain, _: None) -> tuple[_Chain, _Drawn]:
        key, own = jax.random.split(chain.key)
        adapted = chain.adaptation
        length = jnp.where(adapt, jnp.exp(adapted.log_step_size), final(adapted))
        state, info = kernel(own, chain.state, function, length, metric)
        moved = update(adapted, info.acceptance_rate)
        kept = jax.tree.map(lambda a, b: jnp.where(adapt, a, b), moved, adapted)
        seen = _Drawn(state.position, info.is_divergent, info.num_integration_steps)
        return _Chain(key, state, kept), seen

    return jax.lax.scan(draw, chain, None, _AT_ONCE)


def _step_lengths() -> tuple[Callable, Callable, Callable]:
    """How the length of steps begins, is adapted, and ends."""
    try:
        from blackjax.adaptation.step_size import dual_averaging_adaptation
    except ImportError as error:  # pragma: no cover
        raise InputError("sample needs an extra: pip install 'kernelpde[sampling]'.") from error
    return dual_averaging_adaptation(_ACCEPTED)


@dataclass
class _Run:
    """Draws some at a time, counted and told of."""

    density: LogDensity
    chains: int
    total: int
    callback: Callable[[SamplingRecord], None] | None
    divergences: int = 0
    evaluations: int = 0

    def drawn(
        self, number: int, chain: _Chain, root: Array, some: int, done: int, *, adapt: bool
    ) -> tuple[_Chain, np.ndarray]:
        """A chain after some more draws, and these; `done` were there before."""
        parts = []
        for start in range(0, some, _AT_ONCE):
            chain, seen = _drawn(self.density, root, chain, jnp.asarray(adapt))
            kept = min(_AT_ONCE, some - start)
            parts.append(np.asarray(seen.positions)[:kept])
            self.evaluations += int(np.sum(seen.evaluations))
            if not adapt:
                self.divergences += int(np.sum(np.asarray(seen.divergent)[:kept]))
            if self.callback is not None:
                now = (done + start + kept, self.total, self.divergences, self.evaluations)
                self.callback(SamplingRecord(number + 1, self.chains, *now))
        return chain, np.concatenate(parts)


def _scaled(density: LogDensity, root: Array, drawn: list[np.ndarray]) -> Array:
    """A root of the covariance of draws, drawn towards the one before where they are few."""
    seen = np.concatenate(drawn) @ np.asarray(root).T
    few = 5.0 / (len(seen) + 5.0)
    spread = np.cov(seen.T).reshape(root.shape)
    spread = (1 - few) * spread + few * np.asarray(density.covariance)
    return array(np.linalg.cholesky(spread))


def sample(
    found: Solution | Learned | LogDensity,
    key: PRNGKeyArray,
    *,
    draws: int = 500,
    warmup: int = 200,
    chains: int = 4,
    hyperparameters: float | None = None,
    callback: Callable[[SamplingRecord], None] | None = None,
) -> Samples:
    """Draw unknown numbers from their posterior, not from a Gaussian approximation of it.

    The no-U-turn sampler, started around the solution and scaled by its covariance; after half of
    the warm-up by that of the draws so far. Fields are integrated out, see `log_density`. Needs the
    extra `sampling`.

    **Arguments:**

    - `found`: a solution, the result of `learn`, or a `log_density`.
    - `key`: the source of randomness.
    - `draws`, `warmup`: number of draws per chain that are kept, and of warm-up draws before them.
    - `chains`: number of chains, each with a different start.
    - `hyperparameters`: as for `log_density`.
    - `callback`: called with a `SamplingRecord` as sampling proceeds.

    **Example:**

    ```python
    >>> drawn = kp.sample(found, jax.random.key(0), draws=100, warmup=100, chains=2)
    ```
    """
    begin = _step_lengths()[0]
    random_key("sample", key)
    whole_number("sample", "draws", draws, at_least=_AT_ONCE)
    whole_number("sample", "warmup", warmup, at_least=2 * _AT_ONCE)
    whole_number("sample", "chains", chains, at_least=2)
    expected = "what solve, learn or log_density has returned"
    instance("sample", "found", found, (Solution, Learned, LogDensity), expected)
    density = found
    if not isinstance(density, LogDensity):
        density = log_density(density, hyperparameters=hyperparameters)
    elif hyperparameters is not None:
        raise InputError("sample: hyperparameters are settled by the log_density that is given.")
    if not bool(jnp.isfinite(density(density.mode))):
        raise SolveError(
            "sample: there is no density where it is to start. Give log_density a solution that "
            "has converged."
        )

    def adapting() -> Any:
        # Arrays, all of them: other numbers would be part of the program.
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), begin(0.5))

    run = _Run(density, chains, warmup + draws, callback)
    root = array(np.linalg.cholesky(np.asarray(density.covariance)))
    keys = jax.random.split(key, (chains, 2))
    first, ended = warmup // 2, []
    for number in range(chains):
        z = jax.random.normal(keys[number, 0], (len(root),))
        state = _begun(density, root, z)
        while not bool(jnp.isfinite(state.logdensity)):
            z = 0.5 * z
            state = _begun(density, root, z)
        chain = _Chain(keys[number, 1], state, adapting())
        ended.append(run.drawn(number, chain, root, first, 0, adapt=True))
    new = _scaled(density, root, [drawn[first // 2 :] for _, drawn in ended])
    positions = []
    for number, (chain, drawn) in enumerate(ended):
        z = array(np.linalg.solve(np.asarray(new), np.asarray(root) @ drawn[-1]))
        chain = _Chain(chain.key, _begun(density, new, z), adapting())
        chain, _ = run.drawn(number, chain, new, warmup - first, first, adapt=True)
        positions.append(run.drawn(number, chain, new, draws, warmup, adapt=False)[1])
    x = density.mode + np.stack(positions) @ np.asarray(new).T
    values = {name: np.asarray(each) for name, each in density.values(x).items()}
    return Samples(values, x, density, run.divergences, run.evaluations)
