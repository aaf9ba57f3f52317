"""Checkpoint files of learning runs.

A checkpoint is written between Gauss-Newton steps. A step is a function of the problem and of the
stored state, so a resumed run gives bitwise the same result as an uninterrupted one.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.arrays import to_array
from kernelpde.errors import InputError
from kernelpde.io import digest, read_archive, write_archive
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import RESULTS
from kernelpde.learning._state import LearningState
from kernelpde.learning._step import redraw_validation_points
from kernelpde.learning._task import LearningTask
from kernelpde.problem import PointSet, Problem, residual_fingerprint

_KIND, _VERSION = "kernelpde checkpoint", 1

_RECORD_COLUMNS = (
    "step",
    "factorizations",
    "loss",
    "step_length",
    "change",
    "nugget",
    "seconds",
    "stationary",
)

_CONTROL_COUNTS = ("consecutive_large_changes", "consecutive_frozen_steps", "total_large_changes")


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """Contents of a checkpoint file.

    **Attributes:**

    - `path`: path of the file.
    - `attributes`: JSON attributes of the file.
    - `arrays`: arrays of the file.
    """

    path: Path
    attributes: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def stationary(self) -> bool:
        """True if the run was interrupted during the steps with constant lengthscales."""
        return bool(self.attributes["state"]["stationary"])

    @property
    def stationary_theta(self) -> np.ndarray | None:
        """Hyperparameters after the steps with constant lengthscales."""
        return self.arrays.get("stationary_theta")

    def restore(
        self,
        task: LearningTask,
        state: LearningState,
        stationary_task: LearningTask | None = None,
    ) -> LearningState:
        """Return the stored state.

        **Arguments:**

        - `task`, `state`: task and initial state of the run.
        - `stationary_task`: preceding task with constant lengthscales.
        """
        try:
            return _restore_state(task, state, self, stationary_task)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise InputError(
                f"{self.path}: does not contain a valid state of this run ({error})."
            ) from error


class CheckpointStore:
    """Reader and writer of the checkpoint file of a run.

    **Arguments:**

    - `path`: path of the file.
    - `problem`, `point_sets`: problem and all points of the run.
    - `settings`: settings of the run, compared as text.
    - `metadata`: further data to store, such as the command that started the run.
    """

    def __init__(
        self,
        path: str | Path,
        problem: Problem,
        point_sets: tuple[PointSet, ...],
        settings: Mapping[str, Any],
        metadata: Mapping[str, Any],
    ):
        self.path, self.metadata = Path(path), dict(metadata)
        self.settings = {key: _stable_repr(value) for key, value in settings.items()}
        names = [condition.name for condition in problem.conditions]
        self.identity = {
            "fields": [field.name for field in problem.fields],
            "conditions": names,
            "kernels": _stable_repr(jax.tree.map(jnp.shape, problem.prior)),
            "frozen hyperparameters": _stable_repr(jax.tree.structure(problem.prior)),
            "initial hyperparameters": digest(jax.tree.leaves((problem.prior, problem.noises))),
            "data and noise": [digest(jax.tree.leaves(points)) for points in point_sets],
            "arrays in the settings": digest(
                leaf for leaf in jax.tree.leaves(dict(settings)) if eqx.is_array_like(leaf)
            ),
        }
        self.points = {
            name: np.asarray(points.points) for name, points in zip(names, point_sets, strict=True)
        }
        self.fingerprints = {
            name: residual_fingerprint(residual, points)
            for name, residual, points in zip(names, problem.residuals, point_sets, strict=True)
        }

    def read(self) -> StoredRun | None:
        """Return the contents of the file, or `None` if it does not exist.

        A file of a different run raises an `InputError`.
        """
        if not self.path.exists():
            return None
        attributes, arrays = read_archive(self.path, _KIND, _VERSION)
        try:
            # Settings are compared first: a different seed also changes data and points, and it is
            # the simpler explanation.
            for name, expected in self.settings.items():
                self._compare(name, attributes["settings"][name], expected)
            for name, expected in self.identity.items():
                self._compare(name, attributes["problem"][name], expected)
            for name, points in self.points.items():
                if not np.array_equal(arrays[f"points.{name}"], points):
                    self._raise_mismatch(f"the points of condition {name!r} differ")
                fingerprint = arrays[f"fingerprint.{name}"]
                if not np.allclose(fingerprint, self.fingerprints[name], rtol=1e-6, atol=0):
                    self._raise_mismatch(f"the equation of condition {name!r} differs")
            stored = StoredRun(self.path, attributes, arrays)
            if not isinstance(attributes["state"]["stationary"], bool):
                raise TypeError("stationary")
        except InputError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"{self.path}: is damaged; {error} is missing or invalid.") from error
        return stored

    def write(
        self, task: LearningTask, state: LearningState, stationary_theta: np.ndarray | None
    ) -> None:
        """Write the state of a run, on the first process only.

        **Arguments:**

        - `task`, `state`: task and state of the run.
        - `stationary_theta`: hyperparameters after the steps with constant lengthscales.
        """
        if jax.process_index() != 0:
            return
        attributes, arrays = _serialize(task, state)
        if stationary_theta is not None:
            arrays["stationary_theta"] = stationary_theta
        arrays |= {f"points.{name}": points for name, points in self.points.items()}
        arrays |= {f"fingerprint.{name}": values for name, values in self.fingerprints.items()}
        write_archive(
            self.path,
            _KIND,
            _VERSION,
            {
                "problem": self.identity,
                "settings": self.settings,
                "metadata": self.metadata,
                "hyperparameters": task.hyperparameters_at(state.theta),
                "state": attributes,
            },
            arrays,
        )

    def _compare(self, name: str, stored: object, expected: object) -> None:
        if stored != expected:
            self._raise_mismatch(f"{name}: the file has {stored}, expected {expected}")

    def _raise_mismatch(self, message: str) -> None:
        raise InputError(
            f"{self.path}: belongs to another run; {message}. Use a different file, or delete this "
            "one to start a new run."
        )


def read_checkpoint_metadata(path: str | Path) -> dict[str, Any]:
    """Return the metadata of a checkpoint file."""
    metadata = read_archive(path, _KIND, _VERSION)[0].get("metadata")
    if not isinstance(metadata, dict):
        raise InputError(f"{path}: contains no metadata.")
    return metadata


def _serialize(
    task: LearningTask, state: LearningState
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    step_control = state.step_control
    attributes = {
        "stationary": task.stationary,
        "result": None if state.result is None else state.result.name,
        "nugget": state.nugget,
        "factorizations": state.factorizations,
        "local_searches": state.local_searches,
        "seconds": state.seconds,
        "random": state.rng_state,
        "has_optimizer_state": state.optimizer_state is not None,
        "step_control": {
            name: getattr(step_control, name) for name in (*_CONTROL_COUNTS, "halve_steps")
        },
        "residuals": [record.residuals for record in state.history],
    }
    arrays: dict[str, Any] = {
        "theta": state.theta,
        "changes": np.asarray(step_control.changes),
        "theta_history": np.asarray(step_control.theta_history).reshape(
            len(step_control.theta_history), state.theta.size
        ),
    }
    if state.covariance is not None:
        arrays["covariance"] = state.covariance
    for name, tree in (
        ("train", state.train_linearization),
        ("validation", state.validation_linearization),
        ("optimizer", state.optimizer_state),
    ):
        arrays |= {f"{name}.{i}": leaf for i, leaf in enumerate(jax.tree.leaves(tree))}
    for name, records in (("history", state.history), ("evaluations", state.evaluations)):
        arrays |= {f"{name}.{key}": _column(records, key) for key in _RECORD_COLUMNS}
        thetas = [record.theta for record in records]
        arrays[f"{name}.sizes"] = np.array([theta.size for theta in thetas], dtype=int)
        arrays[f"{name}.thetas"] = np.concatenate([*thetas, np.zeros(0)])
    return attributes, {name: np.asarray(values) for name, values in arrays.items()}


def _restore_state(
    task: LearningTask,
    initial: LearningState,
    stored: StoredRun,
    stationary_task: LearningTask | None,
) -> LearningState:
    attributes, arrays = stored.attributes["state"], stored.arrays
    step_control = dataclasses.replace(
        initial.step_control,
        theta_history=tuple(arrays["theta_history"]),
        changes=tuple(float(change) for change in arrays["changes"]),
        halve_steps=bool(attributes["step_control"]["halve_steps"]),
        **{name: int(attributes["step_control"][name]) for name in _CONTROL_COUNTS},
    )
    # Raises an error here, rather than in the next step, if the random state is invalid.
    np.random.default_rng().bit_generator.state = attributes["random"]
    optimizer_state = None
    if attributes["has_optimizer_state"]:
        template = task.optimizer.state_template(initial.theta)
        optimizer_state = _read_tree(arrays, "optimizer", template)
    state = dataclasses.replace(
        initial,
        theta=_check_shape(arrays["theta"], initial.theta.shape, "theta"),
        result=None if attributes["result"] is None else RESULTS[attributes["result"]],
        nugget=float(attributes["nugget"]),
        factorizations=int(attributes["factorizations"]),
        local_searches=int(attributes["local_searches"]),
        started=initial.started - float(attributes["seconds"]),
        rng_state=attributes["random"],
        train_linearization=_read_tree(arrays, "train", initial.train_linearization),
        covariance=arrays.get("covariance"),
        step_control=step_control,
        optimizer_state=optimizer_state,
        evaluations=_read_records(task, stationary_task, arrays, "evaluations", []),
        history=_read_records(task, stationary_task, arrays, "history", attributes["residuals"]),
    )
    state = redraw_validation_points(task, state)
    return dataclasses.replace(
        state,
        validation_linearization=_read_tree(arrays, "validation", state.validation_linearization),
    )


def _read_records(
    task: LearningTask,
    stationary_task: LearningTask | None,
    arrays: Mapping[str, np.ndarray],
    name: str,
    residuals: Sequence[dict[str, float]],
) -> tuple[LearningRecord, ...]:
    columns = {key: arrays[f"{name}.{key}"] for key in _RECORD_COLUMNS}
    stops = np.cumsum(arrays[f"{name}.sizes"])
    thetas = np.split(arrays[f"{name}.thetas"], stops[:-1]) if stops.size else []
    records = []
    for n, theta in enumerate(thetas):
        row = {key: column[n] for key, column in columns.items()}
        record_task = (stationary_task if row["stationary"] else None) or task
        _check_shape(theta, record_task.theta_map.vector.shape, "a record")
        records.append(
            LearningRecord(
                int(row["step"]),
                int(row["factorizations"]),
                float(row["loss"]),
                theta,
                record_task.hyperparameters_at(theta),
                bool(row["stationary"]),
                dict(residuals[n]) if residuals else {},
                None if np.isnan(row["step_length"]) else float(row["step_length"]),
                None if np.isnan(row["change"]) else float(row["change"]),
                float(row["nugget"]),
                float(row["seconds"]),
            )
        )
    return tuple(records)


def _column(records: Sequence[LearningRecord], key: str) -> np.ndarray:
    values = [getattr(record, key) for record in records]
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _read_tree(arrays: Mapping[str, np.ndarray], name: str, template: Any) -> Any:
    """Return a tree with the structure of the template and the stored leaves."""
    leaves, structure = jax.tree.flatten(template)
    stored = [
        _check_shape(arrays[f"{name}.{i}"], np.shape(leaf), name) for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(
        structure,
        [
            float(values) if isinstance(leaf, float) else to_array(values)
            for values, leaf in zip(stored, leaves, strict=True)
        ],
    )


def _check_shape(values: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    if values.shape != shape or not np.issubdtype(values.dtype, np.number):
        raise ValueError(f"{name} has shape {values.shape}, expected {shape}")
    return values


def _stable_repr(value: object) -> str:
    """Return the repr of a value without memory addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
