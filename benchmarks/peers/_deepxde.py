"""DeepXDE: a network of tanh layers, half of its time by Adam and half by L-BFGS, in float64.

As its documented examples have it: conditions on the boundary as losses of their own, or
met by construction where they are zero on a square, which is more accurate. Points are those of
kernelpde. Settings are budgets: as many CPU seconds as kernelpde takes from cold in
`results/peers.json`, or ten times as many.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepxde as dde
import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.peers._equations import Rows
from kernelpde.gallery import Example

COMPILES = False
SETTINGS = ("equal time", "ten times")
RESULTS = Path(__file__).parent.parent.parent / "results" / "peers.json"
WAVES = ((1, 1.0), (4, 4.0))
EXACT_ON_THE_BOUNDARY = ("elliptic", "eikonal")
"""Where the solution is a function that vanishes on the boundary times the network."""


def _d(y: Any, x: Any, field: int, *axes: int) -> Any:
    """A derivative of a field."""
    first, *others = axes
    found = dde.grad.jacobian(y, x, i=field, j=first)
    for axis in others:
        found = torch.autograd.grad(found.sum(), x, create_graph=True)[0][:, axis : axis + 1]
    return found


def _elliptic(x: Any, u: Any) -> list[Any]:
    waves = [
        (k, a * torch.sin(k * np.pi * x[:, :1]) * torch.sin(k * np.pi * x[:, 1:])) for k, a in WAVES
    ]
    source = sum(2 * (k * np.pi) ** 2 * w for k, w in waves) + sum(w for _, w in waves) ** 3
    return [-_d(u, x, 0, 0, 0) - _d(u, x, 0, 1, 1) + u**3 - source]


def _burgers(x: Any, u: Any) -> list[Any]:
    return [_d(u, x, 0, 0) + u * _d(u, x, 0, 1) - 0.02 * _d(u, x, 0, 1, 1)]


def _eikonal(x: Any, u: Any) -> list[Any]:
    along = _d(u, x, 0, 0) ** 2 + _d(u, x, 0, 1) ** 2
    return [along - 1 - 0.01 * (_d(u, x, 0, 0, 0) + _d(u, x, 0, 1, 1))]


def _poisson(x: Any, u: Any, source: Any) -> list[Any]:
    return [_d(u, x, 0, 0, 0) + _d(u, x, 0, 1, 1) - source]


EQUATIONS: dict[str, Callable[..., list[Any]]] = {
    "elliptic": _elliptic,
    "burgers": _burgers,
    "eikonal": _eikonal,
    "poisson-flower": _poisson,
}


def solved(example: Example, setting: str, seed: int) -> Any:
    if example.name not in EQUATIONS:
        raise SystemExit(f"There is {', '.join(EQUATIONS)}; not {example.name}.")
    seconds = _cold(example.name) * (10 if setting == "ten times" else 1)
    torch.set_num_threads(1)
    dde.config.set_default_float("float64")
    dde.config.set_random_seed(seed)
    rows = Rows(example, dict(example.points), seed)
    exact, bounds = next(iter(example.references.values())), rows.bounds
    inside, edges = rows.blocks[0].points, [b.points for b in rows.blocks[1:]]
    hard = example.name in EXACT_ON_THE_BOUNDARY
    known = [dde.icbc.PointSetBC(at, np.asarray(exact(at))[:, None]) for at in edges]
    given = _laplacian(exact) if example.name == "poisson-flower" else None
    data = dde.data.PDE(
        dde.geometry.Hypercube(bounds[:, 0] - 1e-9, bounds[:, 1] + 1e-9),
        EQUATIONS[example.name],
        [] if hard else known,
        num_domain=0,
        anchors=np.asarray(inside),
        auxiliary_var_function=given,
    )
    # The network of the documented example of Burgers' equation, and a larger one for the others.
    sizes = [20] * 3 if example.name == "burgers" else [50] * 4
    network = dde.nn.FNN([len(bounds), *sizes, 1], "tanh", "Glorot normal")
    if hard:
        network.apply_output_transform(
            lambda x, y: 16 * torch.prod(x * (1 - x), dim=1, keepdim=True) * y
        )
    model = dde.Model(data, network)
    begin = time.process_time()
    model.compile("adam", lr=1e-3)
    half = _Until(begin + seconds / 2)
    model.train(iterations=10**8, display_every=10**9, callbacks=[half], verbose=0)
    dde.optimizers.set_LBFGS_options(maxiter=10**6, gtol=1e-13, ftol=0)
    dde.optimizers.config.LBFGS_options["iter_per_step"] = 100
    dde.optimizers.config.LBFGS_options["fun_per_step"] = 125
    model.compile("L-BFGS")
    end = _Until(begin + seconds)
    model.train(display_every=10**9, callbacks=[end], verbose=0)
    return model


class _Until(dde.callbacks.Callback):
    """Stops when the process has taken so many seconds of CPU time."""

    def __init__(self, end: float):
        super().__init__()
        self.end = end

    def on_epoch_end(self) -> None:
        self.model.stop_training = time.process_time() >= self.end


def _cold(problem: str) -> float:
    runs = json.loads(RESULTS.read_text())["runs"]
    times = [
        r["cold"]
        for r in runs
        if (r["method"], r["problem"]) == ("kernelpde", problem) and "cold" in r
    ]
    if not times:
        raise SystemExit(f"Run `benchmarks/peers/run.py kernelpde {problem}` before.")
    return statistics.median(times)


def _laplacian(exact: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    trace = jax.jit(jax.vmap(lambda at: jnp.trace(jax.hessian(lambda x: exact(x[None])[0])(at))))
    return lambda points: np.asarray(trace(jnp.asarray(points)))[:, None]


def values(example: Example, found: Any, field: str, points: Any) -> Any:
    del example, field
    return found.predict(np.asarray(points))[:, 0]
