"""FastLSQ (Sulc, arXiv:2602.10541): random Fourier features, Newton's method, least squares.

Its own `solve_nonlinear` with 900 features, the residuals and their slopes as kernelpde has them.
Settings are bandwidths, or "auto" for its own choice. The coordinates are as given; boundary
conditions have the weight 100.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from fastlsq import solve_nonlinear

from benchmarks.peers._equations import Rows
from kernelpde.gallery import Example

SETTINGS = ("1", "2", "3", "5", "8", "12", "auto")
FEATURES = 900


class Adapted:
    """A problem as FastLSQ asks for it."""

    def __init__(self, example: Example, seed: int):
        largest = max(example.points.values())
        more = max(1.0, 3 * FEATURES / largest)
        self.example = example
        self.rows = Rows(example, {k: int(more * v) for k, v in example.points.items()}, seed)
        self.dim, self.n_outputs = len(self.rows.bounds), self.rows.fields
        self.points = [torch.tensor(np.asarray(b.points)) for b in self.rows.blocks]

    def get_train_data(self, n_pde: int, n_bc: int) -> tuple[Any, Any, Any]:
        del n_pde, n_bc
        return self.points[0], [], None

    def get_test_points(self, n: int) -> Any:
        return torch.tensor(self.example.grid[:n])

    def exact(self, x: Any) -> Any:
        """For its choice of a bandwidth, which takes the true error: more than one could know."""
        at = np.asarray(x)
        names = [f.name for f in self.example.problem.fields]
        truth = [np.asarray(self.example.references[n](at)) for n in names]
        return torch.tensor(np.stack(truth, axis=1))

    def exact_grad(self, x: Any) -> Any:
        return torch.zeros_like(x)

    def build_newton_step(self, solver: Any, x_pde: Any, bcs: Any, f_pde: Any) -> tuple[Any, Any]:
        del x_pde, bcs, f_pde
        matrix, right = [], []
        for index, residual in enumerate(self.rows.problem.residuals):
            at, weight = self.points[index], self.rows.weights[index]
            tables = [
                sum(solver.basis.derivative(at, order) for order in term.orders)
                for term in residual.terms
            ]
            now = [
                jnp.asarray((table @ solver.beta[:, term.field]).numpy())
                for term, table in zip(residual.terms, tables, strict=True)
            ]
            r, slopes = (torch.tensor(np.asarray(a)) for a in self.rows.linearized(index, now))
            for equation in range(r.shape[1]):
                parts = [torch.zeros(len(r), solver.n_features) for _ in range(self.n_outputs)]
                for number, (term, table) in enumerate(zip(residual.terms, tables, strict=True)):
                    parts[term.field] = (
                        parts[term.field] + slopes[:, equation, number, None] * table
                    )
                matrix.append(weight * torch.cat(parts, dim=1))
                right.append(-weight * r[:, equation])
        return torch.cat(matrix), torch.cat(right)[:, None]


def solved(example: Example, setting: str, seed: int) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(seed)
    found = solve_nonlinear(
        Adapted(example, seed),
        scale=None if setting == "auto" else float(setting),
        n_blocks=3,
        hidden_size=FEATURES // 3,
        return_metrics=False,
        verbose=False,
    )
    return found["u_fn"]


def values(example: Example, found: Any, field: str, points: Any) -> Any:
    names = [f.name for f in example.problem.fields]
    return found(torch.tensor(np.asarray(points))).detach().numpy()[:, names.index(field)]
