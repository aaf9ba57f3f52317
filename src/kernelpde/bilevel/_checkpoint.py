"""Checkpoint files of bilevel optimizations.

A checkpoint is written between steps. A step is a function of the task and of the stored state, so
a resumed run gives bitwise the same result as an uninterrupted one.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from kernelpde.arrays import to_array
from kernelpde.bilevel._state import Candidate, Record, State, Task
from kernelpde.errors import InputError
from kernelpde.io import read_archive, write_archive
from kernelpde.results import RESULTS

_KIND, _VERSION = "kernelpde checkpoint", 1

_COLUMNS = ("step", "factorizations", "loss", "step_length", "change", "seconds")
"""Numbers of a record."""

_COUNTS = ("loss", "local_searches", "factorizations", "previous_steps")
"""Numbers of a state."""

_CONTROL = (
    "consecutive_large_changes",
    "consecutive_frozen_steps",
    "total_large_changes",
    "halve_steps",
)

_OPTIONAL = ("covariance", "feasible_theta")

_INVALID = (KeyError, IndexError, TypeError, AttributeError, ValueError)
"""Exceptions that damaged contents raise."""


class CheckpointStore:
    """Reader and writer of the checkpoint file of a run.

    **Arguments:**

    - `path`: path of the file.
    - `identity`: JSON-serializable descriptions of the run by name. Files with others are rejected.
    - `arrays`: arrays that identify the run, by name, equal up to a relative error of 1e-6.
    - `metadata`: further data to store, such as the command that started the run.
    """

    def __init__(
        self,
        path: str | Path,
        identity: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        metadata: Mapping[str, Any],
    ):
        self.path, self.metadata = Path(path), dict(metadata)
        self.identity, self.arrays = dict(identity), dict(arrays)

    def read(self) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        """Return the attributes and arrays of all stored states; empty without a file."""
        if not self.path.exists():
            return []
        attributes, arrays = read_archive(self.path, _KIND, _VERSION)
        try:
            for name, expected in self.identity.items():
                stored = attributes["identity"][name]
                if stored != expected:
                    self._raise_mismatch(f"{name}: the file has {stored}, expected {expected}")
            for name, expected in self.arrays.items():
                stored = arrays[f"identity.{name}"]
                if stored.shape != expected.shape or not np.allclose(stored, expected, 1e-6, 0):
                    self._raise_mismatch(f"{name} differs")
            return [
                (dict(state), _with_prefix(arrays, f"{index}."))
                for index, state in enumerate(attributes["states"])
            ]
        except InputError:
            raise
        except _INVALID as error:
            raise InputError(f"{self.path}: is damaged; {error} is missing or invalid.") from error

    def restore(
        self, task: Task, initial: State, stored: tuple[dict[str, Any], dict[str, np.ndarray]]
    ) -> State:
        """Return a stored state of a task with this initial state."""
        try:
            return _restore(task, initial, *stored)
        except _INVALID as error:
            raise InputError(
                f"{self.path}: does not contain a valid state of this run ({error})."
            ) from error

    def write(self, states: list[State]) -> None:
        """Write the last states of all optimizations of a run, on the first process only."""
        if jax.process_index() != 0:
            return
        attributes, arrays = [], {f"identity.{name}": a for name, a in self.arrays.items()}
        for index, state in enumerate(states):
            state_attributes, state_arrays = _serialize(state)
            attributes.append(state_attributes)
            arrays |= {f"{index}.{name}": values for name, values in state_arrays.items()}
        contents = {"identity": self.identity, "metadata": self.metadata, "states": attributes}
        write_archive(self.path, _KIND, _VERSION, contents, arrays)

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


def _with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names start with a prefix, under the rest of their names."""
    return {
        name.removeprefix(prefix): values
        for name, values in arrays.items()
        if name.startswith(prefix)
    }


def _serialize(state: State) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    attributes: dict[str, Any] = {name: getattr(state, name) for name in _COUNTS}
    attributes |= {
        "result": None if state.result is None else state.result.name,
        "seconds": state.seconds,
        "has_optimizer_state": state.optimizer_state is not None,
        "control": {name: getattr(state.control, name) for name in _CONTROL},
    }
    arrays: dict[str, Any] = {
        "theta": state.theta,
        "changes": state.control.changes,
        "theta_history": np.reshape(state.control.theta_history, (-1, state.theta.size)),
    }
    arrays |= {name: getattr(state, name) for name in _OPTIONAL}
    attributes["candidates"] = [candidate.loss for candidate in state.candidates]
    trees = [("inner", state.inner), ("optimizer", state.optimizer_state)]
    for i, candidate in enumerate(state.candidates):
        trees.append((f"candidate.{i}", (candidate.theta, candidate.inner)))
    for name, tree in trees:
        arrays |= {f"{name}.{i}": leaf for i, leaf in enumerate(jax.tree.leaves(tree))}
    for name, records in (("history", state.history), ("evaluations", state.evaluations)):
        attributes[name] = [record.metrics for record in records]
        arrays[f"{name}.thetas"] = np.reshape([r.theta for r in records], (-1, state.theta.size))
        for key in _COLUMNS:
            column = [getattr(record, key) for record in records]
            arrays[f"{name}.{key}"] = [np.nan if value is None else value for value in column]
    return attributes, {
        name: np.asarray(values) for name, values in arrays.items() if values is not None
    }


def _restore(
    task: Task, initial: State, attributes: dict[str, Any], arrays: dict[str, np.ndarray]
) -> State:
    shape, optimizer_state = initial.theta.shape, None
    if attributes["has_optimizer_state"]:
        template = task.optimizer.state_template(initial.theta)
        optimizer_state = _read_tree(arrays, "optimizer", template)
    control = dataclasses.replace(
        initial.control,
        theta_history=tuple(arrays["theta_history"]),
        changes=tuple(arrays["changes"].tolist()),
        **{
            name: type(getattr(initial.control, name))(attributes["control"][name])
            for name in _CONTROL
        },
    )
    candidates = []
    for i, loss in enumerate(attributes["candidates"]):
        theta, inner = _read_tree(arrays, f"candidate.{i}", (initial.theta, initial.inner))
        candidates.append(Candidate(np.asarray(theta), inner, float(loss)))
    return dataclasses.replace(
        initial,
        candidates=tuple(candidates),
        theta=_check_shape(arrays["theta"], shape, "theta"),
        inner=_read_tree(arrays, "inner", initial.inner),
        control=control,
        optimizer_state=optimizer_state,
        history=_read_records(attributes, arrays, "history", shape),
        evaluations=_read_records(attributes, arrays, "evaluations", shape),
        started=initial.started + initial.seconds - float(attributes["seconds"]),
        result=None if attributes["result"] is None else RESULTS[attributes["result"]],
        **{name: type(getattr(initial, name))(attributes[name]) for name in _COUNTS},
        **{name: arrays.get(name) for name in _OPTIONAL},
    )


def _read_records(
    attributes: dict[str, Any], arrays: dict[str, np.ndarray], name: str, shape: tuple[int, ...]
) -> tuple[Record, ...]:
    columns = {key: arrays[f"{name}.{key}"].tolist() for key in _COLUMNS}
    records = []
    for n, (theta, metrics) in enumerate(
        zip(arrays[f"{name}.thetas"], attributes[name], strict=True)
    ):
        row = {key: column[n] for key, column in columns.items()}
        records.append(
            Record(
                int(row["step"]),
                int(row["factorizations"]),
                row["loss"],
                _check_shape(theta, shape, name),
                None if np.isnan(row["step_length"]) else row["step_length"],
                None if np.isnan(row["change"]) else row["change"],
                row["seconds"],
                metrics,
            )
        )
    return tuple(records)


def _read_tree(arrays: Mapping[str, np.ndarray], name: str, template: Any) -> Any:
    """Return a tree with the structure of the template and the stored leaves."""
    leaves, structure = jax.tree.flatten(template)
    values = [
        _check_shape(arrays[f"{name}.{i}"], np.shape(leaf), name) for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(
        structure,
        [
            type(leaf)(value.item()) if np.isscalar(leaf) else to_array(value)
            for value, leaf in zip(values, leaves, strict=True)
        ],
    )


def _check_shape(values: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    if values.shape != shape or not np.issubdtype(values.dtype, np.number):
        raise ValueError(f"{name} has shape {values.shape}, expected {shape}")
    return values
