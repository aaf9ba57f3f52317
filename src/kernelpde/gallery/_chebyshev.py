"""Reference solutions on the unit square by collocation at Chebyshev points (Trefethen 2000)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class _Square:
    """Polynomials on the unit square by their values at Chebyshev points.

    **Arguments:**

    - `degree`: in each coordinate.
    """

    degree: int

    @cached_property
    def nodes(self) -> Float[np.ndarray, " n"]:
        return 0.5 * (1.0 - np.cos(np.pi * np.arange(self.degree + 1) / self.degree))

    @cached_property
    def _weights(self) -> Float[np.ndarray, " n"]:
        """Of barycentric interpolation."""
        weights = (-1.0) ** np.arange(self.degree + 1)
        weights[[0, -1]] *= 0.5
        return weights

    @cached_property
    def slope(self) -> Float[np.ndarray, "n n"]:
        """From values to derivatives, in one coordinate."""
        gaps = self.nodes[:, None] - self.nodes + np.eye(self.degree + 1)
        slope = self._weights / self._weights[:, None] / gaps
        return slope - np.diag(slope.sum(1))

    @cached_property
    def along(self) -> tuple[Float[np.ndarray, "m m"], Float[np.ndarray, "m m"]]:
        """From values at all points, x first, to derivatives along x and along y."""
        identity = np.eye(self.degree + 1)
        return np.kron(self.slope, identity), np.kron(identity, self.slope)

    @cached_property
    def points(self) -> Float[np.ndarray, "m 2"]:
        grid = np.meshgrid(self.nodes, self.nodes, indexing="ij")
        return np.stack(grid, axis=-1).reshape(-1, 2)

    def at(
        self, values: Float[np.ndarray, "n n"], points: Float[np.ndarray, "p 2"]
    ) -> Float[np.ndarray, " p"]:
        """The polynomial with these values, elsewhere."""
        left, right = self._interpolation(points[:, 0]), self._interpolation(points[:, 1])
        return np.sum((left @ values) * right, axis=1)

    def _interpolation(self, places: Float[np.ndarray, " p"]) -> Float[np.ndarray, "p n"]:
        gaps = places[:, None] - self.nodes
        hit = np.abs(gaps) < 1e-14
        rows = self._weights / np.where(hit, 1.0, gaps)
        rows /= rows.sum(1, keepdims=True)
        return np.where(hit.any(1, keepdims=True), hit, rows)


@dataclass(frozen=True)
class ChebyshevDarcy:
    """-div(exp(a) grad u) = 1 on the unit square with u = 0 on the boundary.

    **Arguments:**

    - `coefficient`: a, as a function of points.
    - `degree`: of the polynomials in each coordinate.
    """

    coefficient: Callable[[np.ndarray], np.ndarray]
    degree: int = 40

    @cached_property
    def _values(self) -> np.ndarray:
        square = _Square(self.degree)
        points, (along_x, along_y) = square.points, square.along
        strength = np.exp(self.coefficient(points))[:, None]
        operator = -along_x @ (strength * along_x) - along_y @ (strength * along_y)
        inside = ((points > 1e-12) & (points < 1 - 1e-12)).all(1)
        values = np.zeros(len(points))
        values[inside] = np.linalg.solve(operator[np.ix_(inside, inside)], np.ones(inside.sum()))
        return values.reshape(self.degree + 1, self.degree + 1)

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """u at points."""
        return _Square(self.degree).at(self._values, points)


@dataclass(frozen=True)
class ChebyshevCavity:
    """ψ_y Δψ_x - ψ_x Δψ_y = Δ²ψ / Re on the unit square; ψ = 0 and ∂ψ/∂n = 0 on the walls, ψ_y on
    the lid y = 1 given; by Newton's method.

    **Arguments:**

    - `reynolds`: Re.
    - `lid`: ψ_y at (x, 1), which vanishes at both ends.
    - `degree`: of the polynomials in each coordinate.
    """

    reynolds: float
    lid: Callable[[np.ndarray], np.ndarray]
    degree: int = 32

    @cached_property
    def _values(self) -> np.ndarray:
        square, last = _Square(self.degree), self.degree
        size = last + 1
        dx, dy = square.along
        laplacian = dx @ dx + dy @ dy
        bending, curl_x, curl_y = laplacian @ laplacian, laplacian @ dx, laplacian @ dy
        number = np.arange(size * size).reshape(size, size)
        # Values at the outermost points, slopes there in place of the equation at the next ones.
        known, target = np.zeros((size * size, size * size)), np.zeros(size * size)
        for end, beside in ((0, 1), (last, last - 1)):
            known[number[beside, 1:-1]] = dx[number[end, 1:-1]]
            known[number[2:-2, beside]] = dy[number[2:-2, end]]
            for ring in (number[end], number[:, end]):
                known[ring] = np.eye(size * size)[ring]
        target[number[2:-2, last - 1]] = self.lid(square.nodes[2:-2])
        inner = number[2:-2, 2:-2].reshape(-1)
        psi = np.zeros(size * size)
        for _ in range(20):
            u, v, x, y = dy @ psi, dx @ psi, curl_x @ psi, curl_y @ psi
            slope, left = known.copy(), known @ psi - target
            left[inner] = (u * x - v * y - bending @ psi / self.reynolds)[inner]
            slope[inner] = (
                u[inner, None] * curl_x[inner]
                + x[inner, None] * dy[inner]
                - v[inner, None] * curl_y[inner]
                - y[inner, None] * dx[inner]
                - bending[inner] / self.reynolds
            )
            step = np.linalg.solve(slope, -left)
            psi += step
            if np.abs(step).max() < 1e-13:
                break
        return psi.reshape(size, size)

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """ψ at points."""
        return _Square(self.degree).at(self._values, points)

    def velocity(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
        """(ψ_y, -ψ_x) at points."""
        square = _Square(self.degree)
        along_y, along_x = self._values @ square.slope.T, square.slope @ self._values
        return np.stack([square.at(along_y, points), -square.at(along_x, points)], axis=1)
