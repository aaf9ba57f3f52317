"""Reference solutions on the unit square by collocation at Chebyshev points (Trefethen 2000)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class ChebyshevSquare:
    """Polynomials on the unit square, represented by their values at Chebyshev points.

    **Arguments:**

    - `degree`: degree in each coordinate.
    """

    degree: int

    @cached_property
    def nodes(self) -> Float[np.ndarray, " n"]:
        return 0.5 * (1.0 - np.cos(np.pi * np.arange(self.degree + 1) / self.degree))

    @cached_property
    def _weights(self) -> Float[np.ndarray, " n"]:
        """Weights of barycentric interpolation."""
        weights = (-1.0) ** np.arange(self.degree + 1)
        weights[[0, -1]] *= 0.5
        return weights

    @cached_property
    def differentiation(self) -> Float[np.ndarray, "n n"]:
        """Differentiation matrix in one coordinate."""
        gaps = self.nodes[:, None] - self.nodes + np.eye(self.degree + 1)
        matrix = self._weights / self._weights[:, None] / gaps
        return matrix - np.diag(matrix.sum(1))

    @cached_property
    def gradient(self) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
        """Matrices of the derivatives in x and in y, for values in the order of `points`."""
        identity = np.eye(self.degree + 1)
        return np.kron(self.differentiation, identity), np.kron(identity, self.differentiation)

    @cached_property
    def points(self) -> Float[np.ndarray, "m 2"]:
        grid = np.meshgrid(self.nodes, self.nodes, indexing="ij")
        return np.stack(grid, axis=-1).reshape(-1, 2)

    def at(
        self, values: Float[np.ndarray, "n n"], points: Float[np.ndarray, "p 2"]
    ) -> Float[np.ndarray, " p"]:
        """Evaluate the polynomial with the given values at other points."""
        left, right = self._interpolation(points[:, 0]), self._interpolation(points[:, 1])
        return np.sum((left @ values) * right, axis=1)

    def _interpolation(self, coordinates: Float[np.ndarray, " p"]) -> Float[np.ndarray, "p n"]:
        gaps = coordinates[:, None] - self.nodes
        hit = np.abs(gaps) < 1e-14
        rows = self._weights / np.where(hit, 1.0, gaps)
        rows /= rows.sum(1, keepdims=True)
        return np.where(hit.any(1, keepdims=True), hit, rows)


@dataclass(frozen=True)
class ChebyshevDarcy:
    """Solution of -div(exp(a) grad u) = 1 on the unit square with u = 0 on the boundary.

    **Arguments:**

    - `coefficient`: a, as a function of points.
    - `degree`: degree of the polynomials in each coordinate.
    """

    coefficient: Callable[[np.ndarray], np.ndarray]
    degree: int = 40

    @cached_property
    def _values(self) -> np.ndarray:
        square = ChebyshevSquare(self.degree)
        points, (along_x, along_y) = square.points, square.gradient
        strength = np.exp(self.coefficient(points))[:, None]
        operator = -along_x @ (strength * along_x) - along_y @ (strength * along_y)
        inside = ((points > 1e-12) & (points < 1 - 1e-12)).all(1)
        values = np.zeros(len(points))
        values[inside] = np.linalg.solve(operator[np.ix_(inside, inside)], np.ones(inside.sum()))
        return values.reshape(self.degree + 1, self.degree + 1)

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """Return u at points."""
        return ChebyshevSquare(self.degree).at(self._values, points)


@dataclass(frozen=True)
class ChebyshevCavity:
    """Solution of ψ_y Δψ_x - ψ_x Δψ_y = Δ²ψ / Re on the unit square by Newton's method.

    Boundary conditions are ψ = 0, ∂ψ/∂n = 0 on the walls, and prescribed ψ_y on the lid y = 1.

    **Arguments:**

    - `reynolds`: Re.
    - `lid`: ψ_y at (x, 1), which vanishes at both ends.
    - `degree`: degree of the polynomials in each coordinate.
    """

    reynolds: float
    lid: Callable[[np.ndarray], np.ndarray]
    degree: int = 32

    @cached_property
    def _values(self) -> np.ndarray:
        square, last = ChebyshevSquare(self.degree), self.degree
        size = last + 1
        dx, dy = square.gradient
        laplacian = dx @ dx + dy @ dy
        bending, curl_x, curl_y = laplacian @ laplacian, laplacian @ dx, laplacian @ dy
        indices = np.arange(size * size).reshape(size, size)
        # Slopes on the boundary replace the equation at the points next to it.
        boundary, target = np.zeros((size * size, size * size)), np.zeros(size * size)
        for end, neighbor in ((0, 1), (last, last - 1)):
            boundary[indices[neighbor, 1:-1]] = dx[indices[end, 1:-1]]
            boundary[indices[2:-2, neighbor]] = dy[indices[2:-2, end]]
            for ring in (indices[end], indices[:, end]):
                boundary[ring] = np.eye(size * size)[ring]
        target[indices[2:-2, last - 1]] = self.lid(square.nodes[2:-2])
        inner = indices[2:-2, 2:-2].reshape(-1)
        psi = np.zeros(size * size)
        for _ in range(20):
            u, v, x, y = dy @ psi, dx @ psi, curl_x @ psi, curl_y @ psi
            jacobian, residual = boundary.copy(), boundary @ psi - target
            residual[inner] = (u * x - v * y - bending @ psi / self.reynolds)[inner]
            jacobian[inner] = (
                u[inner, None] * curl_x[inner]
                + x[inner, None] * dy[inner]
                - v[inner, None] * curl_y[inner]
                - y[inner, None] * dx[inner]
                - bending[inner] / self.reynolds
            )
            step = np.linalg.solve(jacobian, -residual)
            psi += step
            if np.abs(step).max() < 1e-13:
                break
        return psi.reshape(size, size)

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """Return ψ at points."""
        return ChebyshevSquare(self.degree).at(self._values, points)

    def velocity(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
        """Return the velocity (ψ_y, -ψ_x) at points."""
        square = ChebyshevSquare(self.degree)
        along_y, along_x = (
            self._values @ square.differentiation.T,
            square.differentiation @ self._values,
        )
        return np.stack([square.at(along_y, points), -square.at(along_x, points)], axis=1)
