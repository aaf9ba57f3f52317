"""Candidate hyperparameters and weak priors, scaled by the extent of the domain."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from kernelpde.arrays import to_array
from kernelpde.bilevel import GaussianPrior, RelativePrior, Starts
from kernelpde.kernels import coordinates_of_parameters, log_extents
from kernelpde.learning._collocation import Collocation, draw_batch, split_points
from kernelpde.learning._stationary_start import extents_differ
from kernelpde.learning._theta_map import ThetaMap
from kernelpde.linear_solvers import Automatic

_SHORTEST_START, _NUM_STARTS = 0.03, 6
"""Shortest starting lengthscale relative to the extent of the domain, and the number of them up to
the extent. Each costs one factorization, and neighbors differ by a factor of two. With half the
number the best minimum may lie between two of them; double the number costs as much as a step more.
"""

_NUM_UPDATES = 3
"""Number of inner steps per round, where candidates are compared after inner steps. It should
suffice to leave u = 0, where the loss is uninformative for rough solutions."""

_SUBSAMPLE_ABOVE, _SUBSAMPLE_ROWS = 6000, 2500
"""Number of rows above which starts are compared on a subsample, and its approximate size."""

_NUM_LOCAL = 4
"""Number of candidates of the local search from a lengthscale to its double, and to its half. Each
costs one factorization. Single lengthscales use the second largest changes."""

_NUM_VARIANCES = 3
"""Number of variances of unknown fields when noise is learned, each 100 times the last."""

_PRIOR_MEDIAN = 0.2
"""Prior median of a lengthscale relative to the extent of the domain."""

_VARIATION = 0.2
"""Prior standard deviation of the coefficients by which a log lengthscale varies."""

_PINNED_VARIANCE_STD = 0.1
"""Prior standard deviation of the log variance of a state field."""

_PINNED_LENGTHSCALE_STD = 0.02
"""Prior standard deviation of the logarithm of a pinned lengthscale."""

_MAX_SINGLE_LENGTHSCALES = 12
"""Number of lengthscales up to which the local search also varies single ones."""


def starts_at_zero(
    collocation: Collocation,
    theta: np.ndarray,
    pinned_fields: tuple[int, ...] = (),
    max_rows: int = _SUBSAMPLE_ABOVE,
    subsample_rows: int = _SUBSAMPLE_ROWS,
) -> Starts | None:
    """Return candidate lengthscales to compare at u = 0, or `None` if there are none.

    With data, the lengthscales start at their prior median, because data are uninformative about
    a coefficient before the state is solved for. If noise is learned too, several variances of the
    unknown fields are compared, so that noise does not explain what a larger field would.
    """
    theta_map = collocation.theta_map
    if collocation.data is not None:
        candidates = _variance_candidates(theta_map, theta, pinned_fields)
        return Starts(tuple(candidates), theta, _NUM_UPDATES) if candidates else None
    candidates = _lengthscale_candidates(theta_map, collocation.extents)
    if not candidates:
        return None
    num_rows = sum(condition.num_rows for condition in collocation.conditions)
    share = subsample_rows / num_rows
    inner = subsample(collocation, share) if num_rows > max_rows else None
    return Starts((theta, *candidates), candidates[_NUM_STARTS // 2], inner=inner)


def starts_after_updates(collocation: Collocation) -> Starts:
    """Return candidate lengthscales to compare after several inner steps.

    For rough solutions the linearization at u = 0 is uninformative.
    """
    # One family: equal fractions if coordinates have different units, otherwise initial ratios.
    families = _lengthscale_candidates(collocation.theta_map, collocation.extents)
    has_units = extents_differ(collocation.extents)
    candidates = families[:_NUM_STARTS] if has_units else families[-_NUM_STARTS:]
    return Starts(tuple(candidates), candidates[_NUM_STARTS // 2], _NUM_UPDATES)


def subsample(collocation: Collocation, share: float) -> Collocation:
    """Return the collocation at a share of its points, with an appropriate linear solver."""
    points, solver = collocation.points, collocation.linear_solver
    rng = np.random.default_rng([points.seed, 13])

    def reduced(count: int) -> int:
        return max(1, round(share * count))

    point_sets, held_out_rows = [], []
    for all_points, held_out in zip(points.all_points, points.held_out, strict=True):
        count = all_points.rows_per_equation
        if held_out is None:
            point_sets.append(draw_batch(all_points, reduced(count), rng)[0])
            held_out_rows.append(None)
            continue
        train = np.setdiff1d(np.arange(count), held_out)
        train, held_out = (
            rng.choice(rows, size=reduced(len(rows)), replace=False) for rows in (train, held_out)
        )
        point_sets.append(all_points.select_rows(np.concatenate([train, held_out])))
        held_out_rows.append(np.arange(len(train), len(train) + len(held_out)))
    return Collocation.of(
        collocation.problem,
        split_points(tuple(point_sets), tuple(held_out_rows), points.seed, points.sampling),
        collocation.validation.subsampled(share),
        Automatic(float(solver.nugget), solver.max_nugget, refinement_sweeps=0),
    )


def _lengthscale_candidates(
    theta_map: ThetaMap, extents: Float[np.ndarray, " d"]
) -> list[np.ndarray]:
    """Return θ with lengthscales at several fractions of the extents of their coordinates.

    In the first family all lengthscales have the same fraction, except for differences within one
    field and coordinate. A second family keeps the initial ratios if they differ from the first.
    """
    mask = lengthscale_mask(theta_map)
    if not mask.any():
        return []
    theta, reference = theta_map.vector, theta_reference(theta_map, extents)
    relative = theta - reference
    initial_ratios = np.where(mask, relative - np.mean(relative[mask]), 0.0)
    equal = _coordinate_offsets(theta_map, relative, mask, len(extents))
    families = [equal] if np.allclose(equal, initial_ratios) else [equal, initial_ratios]
    return [
        np.where(mask, reference + np.log(fraction) + offsets, theta)
        for offsets in families
        for fraction in np.geomspace(_SHORTEST_START, 1.0, _NUM_STARTS)
    ]


def _coordinate_offsets(
    theta_map: ThetaMap, relative: np.ndarray, mask: np.ndarray, dimension: int
) -> np.ndarray:
    """Return the offsets of lengthscales from the mean over their field and coordinates."""
    prior, _ = theta_map.trainable
    keys = [
        (index, coordinates)
        for index, tree in enumerate(prior.kernels)
        for coordinates in coordinates_of_parameters(tree, dimension)
    ]
    offsets = np.zeros_like(relative)
    for key in set(keys):
        indices = np.array([i for i, candidate in enumerate(keys) if candidate == key])
        indices = indices[mask[indices]]
        if indices.size:
            offsets[indices] = relative[indices] - relative[indices].mean()
    return offsets


def theta_reference(theta_map: ThetaMap, extents: Float[np.ndarray, " d"]) -> np.ndarray:
    """Return the log extent of the coordinate of each lengthscale, and θ for other entries."""
    prior, noises = theta_map.trainable
    num_noises = sum(leaf.size for leaf in jax.tree.leaves(noises))
    logs = np.concatenate([log_extents(prior, extents), np.full(num_noises, np.nan)])
    return np.where(np.isnan(logs), theta_map.vector, logs)


def local_candidates(theta_map: ThetaMap, theta: np.ndarray) -> list[np.ndarray]:
    """Return θ with all lengthscales up to halved and doubled, and with single ones."""
    mask = lengthscale_mask(theta_map)
    if not mask.any():
        return []
    offsets = np.log(2.0) * np.setdiff1d(np.linspace(-1, 1, 2 * _NUM_LOCAL + 1), 0.0)
    candidates = [theta + mask * offset for offset in offsets]
    if 1 < mask.sum() <= _MAX_SINGLE_LENGTHSCALES:
        candidates += [
            theta + unit * offset
            for unit in np.eye(len(theta))[mask]
            for offset in (offsets[1], offsets[-2])
        ]
    return candidates


def _variance_candidates(
    theta_map: ThetaMap, theta: np.ndarray, states: tuple[int, ...]
) -> list[np.ndarray]:
    """Return θ with larger variances of unknown fields if noise is learned, else nothing."""
    mask = _name_mask(theta_map, "log_variance") & ~_field_mask(theta_map, states)
    if not states or not mask.any() or not _noise_mask(theta_map).any():
        return []
    return [theta + mask * power * np.log(100.0) for power in range(_NUM_VARIANCES)]


def weak_prior(
    theta_map: ThetaMap,
    extents: Float[np.ndarray, " d"],
    by_domain: bool = True,
    pinned_variance_fields: tuple[int, ...] = (),
    pinned_lengthscale_fields: tuple[int, ...] = (),
) -> GaussianPrior:
    """Return a weak prior on θ, which regularizes a likelihood of few data.

    Its central 95% intervals are a tenth to four tenths of the domain for lengthscales, and a
    factor of seven around the start for amplitudes and noise. Other hyperparameters have a flat
    prior. Without `by_domain`, lengthscales are within a factor of two of the start. The prior is
    narrow for variances and lengthscales of the pinned fields.
    """
    lengths, variances = lengthscale_mask(theta_map), _name_mask(theta_map, "log_variance")
    noises = _noise_mask(theta_map)
    theta = theta_map.vector
    expected = np.log(_PRIOR_MEDIAN) + theta_reference(theta_map, extents)
    center = np.where(lengths & by_domain, expected, theta)
    sigma = np.where(lengths, 0.35, np.where(noises, 1.0, np.where(variances, 2.0, np.inf)))
    sigma[variances & _field_mask(theta_map, pinned_variance_fields)] = _PINNED_VARIANCE_STD
    pinned = lengths & _field_mask(theta_map, pinned_lengthscale_fields)
    center[pinned], sigma[pinned] = theta[pinned], _PINNED_LENGTHSCALE_STD
    return GaussianPrior(to_array(center), to_array(sigma))


def varying_prior(collocation: Collocation) -> RelativePrior:
    """Return a weak prior on the coefficients by which lengthscales vary."""
    mask = lengthscale_mask(collocation.theta_map)
    return RelativePrior(
        to_array(collocation.theta),
        to_array(np.where(mask, np.inf, _VARIATION)),
        collocation.num_validation_rows,
    )


def lengthscale_mask(theta_map: ThetaMap) -> np.ndarray:
    """Return a mask of the entries of θ that are log lengthscales."""
    return _name_mask(theta_map, "log_lengthscale")


def _name_mask(theta_map: ThetaMap, name: str) -> np.ndarray:
    return _mask(theta_map, lambda path: getattr(path[-1], "name", "") == name)


def _field_mask(theta_map: ThetaMap, fields: tuple[int, ...]) -> np.ndarray:
    return _mask(theta_map, lambda path: len(path) > 3 and getattr(path[2], "idx", None) in fields)


def _noise_mask(theta_map: ThetaMap) -> np.ndarray:
    return _mask(theta_map, lambda path: path[0].idx == 1)


def _mask(theta_map: ThetaMap, is_selected: Callable[[Any], bool]) -> np.ndarray:
    """Return a mask of the entries of θ, selected by the path of their leaf."""
    leaves = jax.tree_util.tree_leaves_with_path(theta_map.trainable)
    return np.concatenate([np.full(leaf.size, is_selected(path)) for path, leaf in leaves])
