"""Posterior sampling of parameters and hyperparameters by the no-U-turn sampler of blackjax."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from kernelpde.arrays import to_array
from kernelpde.checking import check_instance, check_integer, check_random_key
from kernelpde.compiling import compiled
from kernelpde.errors import InputError, SolveError
from kernelpde.inference._density import LogDensity, log_density
from kernelpde.inference._samples import Samples
from kernelpde.learning import LearningResult
from kernelpde.solution import Solution

_TARGET_ACCEPTANCE = 0.95
"""Acceptance rate to which the step size is adapted. For a curved density, 0.8 gives a third of the
effective sample size at the same cost."""

_PRIOR_DRAWS = 5
"""Number of draws that the Laplace covariance counts for, as in Stan. Not measured."""

_DRAWS_PER_CALL = 10
"""Number of draws between two progress records."""


@dataclass(frozen=True)
class SamplingRecord:
    """Progress of sampling.

    **Attributes:**

    - `chain`, `chains`: index of this chain, counted from 1, and number of chains.
    - `draw`, `draws`: current and final number of draws of the chain, warm-up included.
    - `divergences`: number of divergent trajectories so far, after the warm-up.
    - `evaluations`: number of density and gradient evaluations so far.
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


class _ChainState(NamedTuple):
    """Sampler state and step-size adaptation of a chain."""

    key: PRNGKeyArray
    state: PyTree
    adaptation: PyTree


class _DrawBatch(NamedTuple):
    """Consecutive draws of a chain."""

    positions: PyTree
    divergent: PyTree
    evaluations: PyTree


def _whitened(density: LogDensity, root: Float[Array, "p p"]) -> Callable:
    return lambda z: density(density.mode + root @ z)


@compiled
def _init_nuts(density: LogDensity, root: Float[Array, "p p"], z: Float[Array, " p"]):
    """Evaluate density and gradient at a point."""
    from blackjax.mcmc import nuts

    return nuts.init(z, _whitened(density, root))


@compiled
def _run_nuts(
    density: LogDensity, root: Float[Array, "p p"], chain: _ChainState, adapt: Array
) -> tuple[_ChainState, _DrawBatch]:
    """Draw a batch; the step size is adapted if `adapt` is true."""
    from blackjax.mcmc import nuts

    _, update, final = _step_size_adaptation()
    kernel: Callable = nuts.build_kernel()
    function = _whitened(density, root)
    metric = jnp.ones(len(density.mode))

    def draw(chain: _ChainState, _: None) -> tuple[_ChainState, _DrawBatch]:
        key, draw_key = jax.random.split(chain.key)
        adaptation = chain.adaptation
        step_size = jnp.where(adapt, jnp.exp(adaptation.log_step_size), final(adaptation))
        state, info = kernel(draw_key, chain.state, function, step_size, metric)
        adaptation = jax.tree.map(
            lambda new, old: jnp.where(adapt, new, old),
            update(adaptation, info.acceptance_rate),
            adaptation,
        )
        batch = _DrawBatch(state.position, info.is_divergent, info.num_integration_steps)
        return _ChainState(key, state, adaptation), batch

    return jax.lax.scan(draw, chain, None, _DRAWS_PER_CALL)


def _step_size_adaptation() -> tuple[Callable, Callable, Callable]:
    """Return the functions that initialize, update and finalize the step size."""
    try:
        from blackjax.adaptation.step_size import dual_averaging_adaptation
    except ImportError as error:  # pragma: no cover
        raise InputError("sample needs an extra: pip install 'kernelpde[sampling]'.") from error
    return dual_averaging_adaptation(_TARGET_ACCEPTANCE)


@dataclass
class _Sampler:
    """Chains of one density, with counters and progress records."""

    density: LogDensity
    chains: int
    total: int
    callback: Callable[[SamplingRecord], None] | None
    divergences: int = 0
    evaluations: int = 0

    def start(self, key: PRNGKeyArray, root: Array, z: Array) -> _ChainState:
        """Start a chain with the default step size."""
        initial = _step_size_adaptation()[0](0.5)
        # Python numbers would be static: each value would compile a new program.
        adaptation = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), initial)
        return _ChainState(key, _init_nuts(self.density, root, z), adaptation)

    def start_near_mode(
        self, normal_key: PRNGKeyArray, key: PRNGKeyArray, root: Array
    ) -> _ChainState:
        """Start a chain at a random point of finite density."""
        z = jax.random.normal(normal_key, (len(root),))
        chain = self.start(key, root, z)
        while not bool(jnp.isfinite(chain.state.logdensity)):
            z = 0.5 * z
            chain = self.start(key, root, z)
        return chain

    def draw(
        self, index: int, chain: _ChainState, root: Array, count: int, done: int, *, adapt: bool
    ) -> tuple[_ChainState, np.ndarray]:
        """Return a chain after `count` more draws, and these draws; `done` precede them."""
        positions = []
        for start in range(0, count, _DRAWS_PER_CALL):
            chain, batch = _run_nuts(self.density, root, chain, jnp.asarray(adapt))
            size = min(_DRAWS_PER_CALL, count - start)
            positions.append(np.asarray(batch.positions)[:size])
            self.evaluations += int(np.sum(batch.evaluations))
            if not adapt:
                self.divergences += int(np.sum(np.asarray(batch.divergent)[:size]))
            if self.callback is not None:
                progress = (done + start + size, self.total, self.divergences, self.evaluations)
                self.callback(SamplingRecord(index + 1, self.chains, *progress))
        return chain, np.concatenate(positions)


def _shrunk_covariance_root(density: LogDensity, root: Array, draws: list[np.ndarray]) -> Array:
    """Return a root of the sample covariance, shrunk towards the Laplace covariance."""
    offsets = np.concatenate(draws) @ np.asarray(root).T
    shrinkage = _PRIOR_DRAWS / (len(offsets) + _PRIOR_DRAWS)
    covariance = np.cov(offsets.T).reshape(root.shape)
    covariance = (1 - shrinkage) * covariance + shrinkage * np.asarray(density.covariance)
    return to_array(np.linalg.cholesky(covariance))


def sample(
    result_or_density: Solution | LearningResult | LogDensity,
    key: PRNGKeyArray,
    *,
    draws: int = 500,
    warmup: int = 200,
    chains: int = 4,
    hyperparameters: float | None = None,
    callback: Callable[[SamplingRecord], None] | None = None,
) -> Samples:
    """Draw parameters from their posterior, without a Gaussian approximation.

    Uses the no-U-turn sampler, started near the solution and scaled by the Laplace covariance.
    After half of the warm-up the covariance of the draws is used. Fields are integrated out, see
    `log_density`. Requires the extra `sampling`.

    **Arguments:**

    - `result_or_density`: a solution, the result of `learn`, or a `log_density`.
    - `key`: JAX random key.
    - `draws`, `warmup`: number of draws per chain, and of preceding warm-up draws.
    - `chains`: number of chains, each with a different start.
    - `hyperparameters`: as for `log_density`.
    - `callback`: function called with a `SamplingRecord` after every few draws.

    **Example:**

    ```python
    >>> samples = kp.sample(inverse_result, jax.random.key(0), draws=100, warmup=100, chains=2)
    ```
    """
    _step_size_adaptation()
    check_random_key("sample", key)
    check_integer("sample", "draws", draws, at_least=_DRAWS_PER_CALL)
    check_integer("sample", "warmup", warmup, at_least=2 * _DRAWS_PER_CALL)
    check_integer("sample", "chains", chains, at_least=2)
    types = (Solution, LearningResult, LogDensity)
    expected = "the result of solve, learn or log_density"
    check_instance("sample", "result_or_density", result_or_density, types, expected)
    density = result_or_density
    if not isinstance(density, LogDensity):
        density = log_density(density, hyperparameters=hyperparameters)
    elif hyperparameters is not None:
        raise InputError("sample: pass hyperparameters to log_density, not to sample.")
    if not bool(jnp.isfinite(density(density.mode))):
        raise SolveError(
            "sample: the density is zero at the mode, where sampling starts. Pass a converged "
            "solution to log_density."
        )
    sampler = _Sampler(density, chains, warmup + draws, callback)
    root = to_array(np.linalg.cholesky(np.asarray(density.covariance)))
    half, warm_chains, warm_draws = warmup // 2, [], []
    for index, (normal_key, chain_key) in enumerate(jax.random.split(key, (chains, 2))):
        chain = sampler.start_near_mode(normal_key, chain_key, root)
        chain, positions = sampler.draw(index, chain, root, half, 0, adapt=True)
        warm_chains.append(chain)
        warm_draws.append(positions)
    new_root = _shrunk_covariance_root(density, root, [z[half // 2 :] for z in warm_draws])
    final_draws = []
    for index, (chain, positions) in enumerate(zip(warm_chains, warm_draws, strict=True)):
        z = to_array(np.linalg.solve(np.asarray(new_root), np.asarray(root) @ positions[-1]))
        chain = sampler.start(chain.key, new_root, z)
        chain, _ = sampler.draw(index, chain, new_root, warmup - half, half, adapt=True)
        final_draws.append(sampler.draw(index, chain, new_root, draws, warmup, adapt=False)[1])
    x = density.mode + np.stack(final_draws) @ np.asarray(new_root).T
    by_name = {name: np.asarray(values) for name, values in density.values(x).items()}
    return Samples(by_name, x, density, sampler.divergences, sampler.evaluations)
