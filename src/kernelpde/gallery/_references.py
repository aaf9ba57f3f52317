"""Reference solutions by spectral methods and quadrature."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Complex, Float


@dataclass(frozen=True)
class SplitStep:
    """Solution of i hₜ + ½ hₓₓ + |h|² h = 0 on a circle by fourth-order splitting (Yoshida 1990).

    **Arguments:**

    - `initial`: h at time 0, as a function of x.
    - `low`, `high`: ends of the period.
    - `modes`: number of Fourier modes, even.
    - `step`: maximum time step.
    """

    initial: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    modes: int = 1024
    step: float = 2e-4

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Complex[np.ndarray, " n"]:
        """Return h at points (t, x)."""
        times, time_indices = np.unique(points[:, 0], return_inverse=True)
        values = np.empty(len(points), dtype=complex)
        angle = 2j * np.pi / (self.high - self.low)
        for index, spectrum in enumerate(self._spectra(times)):
            mask = time_indices == index
            waves = np.exp(angle * np.outer(points[mask, 1] - self.low, self._wavenumbers))
            values[mask] = waves @ spectrum / self.modes
        return values

    @cached_property
    def _wavenumbers(self) -> np.ndarray:
        return np.fft.fftfreq(self.modes, 1 / self.modes)

    def _spectra(self, times: np.ndarray) -> list[np.ndarray]:
        grid = self.low + (self.high - self.low) * np.arange(self.modes) / self.modes
        h = self.initial(grid).astype(complex)
        k = 2 * np.pi / (self.high - self.low) * self._wavenumbers
        now, spectra = 0.0, []
        for time in times:
            count = max(1, int(np.ceil((time - now) / self.step)))
            step = (time - now) / count
            phases = [np.exp(-0.5j * k**2 * w * step) for w in _YOSHIDA_DRIFTS]
            for _ in range(count if step > 0 else 0):
                for phase, kick in zip(phases, (*_YOSHIDA_KICKS, None), strict=True):
                    h = np.fft.ifft(phase * np.fft.fft(h))
                    if kick is not None:
                        h = h * np.exp(1j * kick * step * np.abs(h) ** 2)
            now = time
            spectra.append(np.fft.fft(h))
        return spectra


_ROOT = 2.0 ** (1 / 3)
_OUTER, _MIDDLE = 1 / (2 - _ROOT), -_ROOT / (2 - _ROOT)
_YOSHIDA_KICKS = (_OUTER, _MIDDLE, _OUTER)
_YOSHIDA_DRIFTS = (_OUTER / 2, (_OUTER + _MIDDLE) / 2, (_OUTER + _MIDDLE) / 2, _OUTER / 2)


@dataclass(frozen=True)
class CosineSeries:
    """Solution of uₜ = D uₓₓ + R(u) on (0, 1), uₓ = 0 at both ends, by a cosine series.

    **Arguments:**

    - `initial`: value of each species at time 0, as a function of x.
    - `diffusion`: coefficient D of each species.
    - `reaction`: R, a function of arrays with one row per species.
    - `modes`: number of cosines.
    """

    initial: tuple[Callable[[np.ndarray], np.ndarray], ...]
    diffusion: tuple[float, ...]
    reaction: Callable[[np.ndarray], np.ndarray]
    modes: int = 96

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "s n"]:
        """Return all species at points (t, x)."""
        from scipy.fft import dct, idct
        from scipy.integrate import solve_ivp

        size, count = self.modes, len(self.initial)
        grid = (np.arange(size) + 0.5) / size
        decay = -np.outer(self.diffusion, (np.pi * np.arange(size)) ** 2)
        start = np.asarray(dct(np.stack([f(grid) for f in self.initial]), norm="ortho"))

        def rate(_, flat: np.ndarray) -> np.ndarray:
            spectrum = flat.reshape(count, size)
            values = np.asarray(idct(spectrum, norm="ortho"))
            reaction = np.asarray(dct(self.reaction(values), norm="ortho"))
            return (decay * spectrum + reaction).reshape(-1)

        times, time_indices = np.unique(points[:, 0], return_inverse=True)
        last = max(float(times[-1]), 1e-12)
        solution = solve_ivp(
            rate,
            (0.0, last),
            start.reshape(-1),
            method="DOP853",
            t_eval=times,
            rtol=1e-12,
            atol=1e-13,
        )
        spectra = solution.y.T.reshape(len(times), count, size)
        scale = np.full(size, np.sqrt(2 / size))
        scale[0] = np.sqrt(1 / size)
        cosines = scale * np.cos(np.pi * np.outer(points[:, 1], np.arange(size)))
        return np.einsum("nk,nsk->sn", cosines, spectra[time_indices])


@dataclass(frozen=True)
class ColeHopf:
    """Solution of uₜ + u uₓ = ν uₓₓ on (-1, 1), u(x, 0) = -sin πx, u = 0 at both ends.

    u = -∫ sin(π(x - η)) w dη / ∫ w dη with w = exp(-cos(π(x - η)) / (2πν) - η² / (4νt)), see
    Basdevant et al. (1986). The integrals are computed by the Gauss-Hermite rule.

    **Arguments:**

    - `viscosity`: ν.
    - `nodes`: number of quadrature nodes.
    """

    viscosity: float
    nodes: int = 160

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """Return u at points (t, x)."""
        nodes, weights = np.polynomial.hermite.hermgauss(self.nodes)
        t, x = points.T
        y = x[:, None] - np.sqrt(4 * self.viscosity * t)[:, None] * nodes
        exponent = -np.cos(np.pi * y) / (2 * np.pi * self.viscosity)
        kernel = weights * np.exp(exponent - exponent.max(1, keepdims=True))
        return -(kernel * np.sin(np.pi * y)).sum(1) / kernel.sum(1)


@dataclass(frozen=True)
class RegularizedDistance:
    """Solution of |∇u|² = 1 + ε Δu on the unit square, u = 0 on the boundary.

    With u = -ε log v it becomes ε² Δv = v, v = 1 on the boundary. The solution v is a series of
    sines in x and hyperbolic cosines in y, plus the same series with x and y exchanged.

    **Arguments:**

    - `epsilon`: ε.
    - `terms`: number of terms of each series, at least about 12 / δ at distance δ from a side.
    """

    epsilon: float
    terms: int = 3000

    def _half(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return v for boundary value 1 at x = 0 and x = 1, and 0 on the other sides."""
        wave = np.pi * (2 * np.arange(self.terms) + 1)
        rate = np.sqrt(self.epsilon**-2 + wave**2)
        offset = np.abs(x - 0.5)[:, None]
        shape = (
            np.exp(rate * (offset - 0.5)) * (1 + np.exp(-2 * rate * offset)) / (1 + np.exp(-rate))
        )
        return (4 / wave * np.sin(wave * y[:, None]) * shape).sum(1)

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """Return u at points."""
        values = np.zeros(len(points))
        interior = np.flatnonzero(((points > 1e-12) & (points < 1 - 1e-12)).all(1))
        for chunk in np.array_split(interior, len(interior) // 500 + 1):
            x, y = points[chunk].T
            values[chunk] = -self.epsilon * np.log(self._half(x, y) + self._half(y, x))
        return values


@dataclass(frozen=True)
class FourierSeries:
    """Solution of uₜ = L u + N(u) on a circle by fourth-order exponential time differencing.

    The scheme is from Cox and Matthews (2002), with coefficients from contour integrals as in
    Kassam and Trefethen (2005). Interpolation in time uses polynomials of degree seven.

    **Arguments:**

    - `initial`: u at time 0, as a function of x.
    - `linear`: symbol of L, as a function of ik.
    - `nonlinear`: Fourier transform of N, as a function of u, its transform and ik.
    - `low`, `high`: ends of the period.
    - `end`: final time.
    - `modes`, `steps`: numbers of Fourier modes and of time steps.
    """

    initial: Callable[[np.ndarray], np.ndarray]
    linear: Callable[[np.ndarray], np.ndarray]
    nonlinear: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    low: float
    high: float
    end: float
    modes: int = 512
    steps: int = 2000

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """Return u at points (t, x)."""
        position = np.asarray(points)[:, 0] / self.end * self.steps
        first = np.clip(np.floor(position).astype(int) - 3, 0, self.steps - 7)
        offsets = np.arange(8)
        gaps = position[:, None] - first[:, None] - offsets
        weights = np.stack(
            [
                np.prod(np.delete(gaps, j, axis=1), axis=1) / np.prod(j - np.delete(offsets, j))
                for j in offsets
            ],
            axis=1,
        )
        spectra = np.einsum("nj,njk->nk", weights, self._spectra[first[:, None] + offsets])
        k = np.fft.fftfreq(self.modes, 1 / self.modes)
        angle = 2j * np.pi / (self.high - self.low) * (np.asarray(points)[:, 1] - self.low)
        return np.real(np.sum(spectra * np.exp(angle[:, None] * k), axis=1)) / self.modes

    @cached_property
    def _spectra(self) -> np.ndarray:
        grid = self.low + (self.high - self.low) * np.arange(self.modes) / self.modes
        waves = 2j * np.pi / (self.high - self.low) * np.fft.fftfreq(self.modes, 1 / self.modes)
        waves[self.modes // 2] = 0.0
        h = self.end / self.steps
        symbol = self.linear(waves)
        full, half = np.exp(h * symbol), np.exp(h * symbol / 2)
        circle = np.exp(2j * np.pi * (np.arange(32) + 0.5) / 32)
        z = h * symbol[:, None] + circle
        e = np.exp(z)
        q = h * np.mean((np.exp(z / 2) - 1) / z, axis=1)
        f1 = h * np.mean((-4 - z + e * (4 - 3 * z + z**2)) / z**3, axis=1)
        f2 = h * np.mean((2 + z + e * (z - 2)) / z**3, axis=1)
        f3 = h * np.mean((-4 - 3 * z - z**2 + e * (4 - z)) / z**3, axis=1)

        def right(v: np.ndarray) -> np.ndarray:
            return self.nonlinear(np.real(np.fft.ifft(v)), v, waves)

        v = np.fft.fft(self.initial(grid))
        spectra = [v]
        for _ in range(self.steps):
            n0 = right(v)
            a = half * v + q * n0
            na = right(a)
            nb = right(half * v + q * na)
            c = half * a + q * (2 * nb - n0)
            v = full * v + f1 * n0 + 2 * f2 * (na + nb) + f3 * right(c)
            spectra.append(v)
        return np.stack(spectra)
