"""A learning run on disk: everything it needs to go on as if it had never stopped.

The file is written between Gauss-Newton steps. A step is a function of what is in it and of the
problem, so a run that goes on from the file ends where an undisturbed one does, bit for bit.
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

from kernelpde.archive import digest, read_archive, write_archive
from kernelpde.arrays import array
from kernelpde.errors import InputError
from kernelpde.learning._inner import Linearization
from kernelpde.learning._record import LearningRecord
from kernelpde.learning._result import RESULTS
from kernelpde.learning._state import LearningState
from kernelpde.learning._step import with_new_points
from kernelpde.learning._task import Task
from kernelpde.problem import Collocation, Problem, probe

_KIND, _VERSION = "kernelpde run", 2

_NUMBERS = ("step", "factorizations", "loss", "length", "change", "nugget", "seconds", "constant")


@dataclasses.dataclass(frozen=True)
class Stored:
    """A run as it was left.

    **Attributes:**

    - `path`: its file.
    - `facts`, `arrays`: what is in it.
    """

    path: Path
    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def constant(self) -> bool:
        """Whether it was left while lengthscales that may vary were held constant."""
        return bool(self.facts["state"]["constant"])

    @property
    def before(self) -> np.ndarray | None:
        """The hyperparameters with which constant lengthscales were left."""
        return self.arrays.get("before")

    def restored(
        self, task: Task, state: LearningState, earlier: Task | None = None
    ) -> LearningState:
        """The state in which a run was left.

        **Arguments:**

        - `task`, `state`: of a run that has just begun.
        - `earlier`: the task with constant lengthscales that preceded it.
        """
        try:
            return _restored(task, state, self, earlier)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise InputError(
                f"{self.path}: does not hold the state of this run ({error})."
            ) from error


class Checkpoint:
    """The file of a run.

    **Arguments:**

    - `path`: where.
    - `problem`, `blocks`: what is learned, and at which points.
    - `settings`: how; text, to be compared.
    - `notes`: further facts to be kept in the file, such as the command that began the run.
    """

    def __init__(
        self,
        path: str | Path,
        problem: Problem,
        blocks: tuple[Collocation, ...],
        settings: Mapping[str, Any],
        notes: Mapping[str, Any],
    ):
        self.path, self.blocks, self.notes = Path(path), blocks, dict(notes)
        self.settings = {key: _text(value) for key, value in settings.items()}
        self.identity = {
            "fields": [field.name for field in problem.fields],
            "conditions": [condition.name for condition in problem.conditions],
            "kernels": _text(jax.tree.map(jnp.shape, problem.kernels)),
            "what is held of them": _text(jax.tree.structure(problem.kernels)),
            "numbers to begin with": digest(jax.tree.leaves((problem.kernels, problem.noises))),
            "data and noise": [digest(jax.tree.leaves(block)) for block in blocks],
            "numbers of the settings": digest(
                leaf for leaf in jax.tree.leaves(dict(settings)) if eqx.is_array_like(leaf)
            ),
        }
        self.probes = {
            name: probe(residual, block)
            for name, residual, block in zip(
                self.identity["conditions"], problem.residuals, blocks, strict=True
            )
        }

    def read(self) -> Stored | None:
        """What the file holds, if there is one; a run of something else is refused."""
        if not self.path.exists():
            return None
        facts, arrays = read_archive(self.path, _KIND, _VERSION)
        try:
            # Of two reasons the plainer: with another seed, data and numbers are others as well.
            for what, expected in self.settings.items():
                self._compare(what, facts["settings"].get(what), expected)
            for what, expected in self.identity.items():
                self._compare(what, facts["problem"][what], expected)
            for name, block in zip(self.identity["conditions"], self.blocks, strict=True):
                if not np.array_equal(arrays[f"points.{name}"], block.points):
                    self._refuse(f"the points of condition {name!r} are others")
                if not np.allclose(arrays[f"probe.{name}"], self.probes[name], rtol=1e-6, atol=0):
                    self._refuse(f"the equation of condition {name!r} is another one")
            stored = Stored(self.path, facts, arrays)
            if not isinstance(facts["state"]["constant"], bool):
                raise TypeError("constant")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{self.path}: is damaged; {error} is missing or wrong.") from error
        return stored

    def write(self, task: Task, state: LearningState, before: np.ndarray | None) -> None:
        """Keep the state of a run; of several processes, the first does.

        **Arguments:**

        - `task`, `state`: of the run.
        - `before`: the hyperparameters with which constant lengthscales were left.
        """
        if jax.process_index() != 0:
            return
        facts, arrays = _saved(task, state)
        if before is not None:
            arrays["before"] = before
        for name, block in zip(self.identity["conditions"], self.blocks, strict=True):
            arrays[f"points.{name}"] = np.asarray(block.points)
            arrays[f"probe.{name}"] = self.probes[name]
        write_archive(
            self.path,
            _KIND,
            _VERSION,
            {
                "problem": self.identity,
                "settings": self.settings,
                "notes": self.notes,
                "hyperparameters": task.hyperparameters_at(state.theta),
                "state": facts,
            },
            arrays,
        )

    def _compare(self, what: str, found: Any, expected: Any) -> None:
        if found != expected:
            self._refuse(f"{what}: the file has {found}, expected {expected}")

    def _refuse(self, reason: str) -> None:
        raise InputError(
            f"{self.path}: belongs to another run; {reason}. Name another file, or remove this one "
            "to begin anew."
        )


def read_notes(path: str | Path) -> dict[str, Any]:
    """The notes of a run file: what its run was begun with."""
    notes = read_archive(path, _KIND, _VERSION)[0].get("notes")
    if not isinstance(notes, dict):
        raise InputError(f"{path}: holds no notes.")
    return notes


_COUNTS = ("unsettled", "held", "far")


def _saved(task: Task, state: LearningState) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    pace = state.pace
    facts = {
        "constant": task.constant,
        "result": None if state.result is None else state.result.name,
        "nugget": state.nugget,
        "factorizations": state.factorizations,
        "local_searches": state.local_searches,
        "seconds": state.seconds,
        "random": state.random,
        "remembers": state.memory is not None,
        "pace": {name: getattr(pace, name) for name in (*_COUNTS, "shortened")},
        "residuals": [record.residuals for record in state.history],
    }
    arrays: dict[str, Any] = {
        "theta": state.theta,
        "pace.changes": np.asarray(pace.changes),
        "pace.path": np.asarray(pace.path).reshape(len(pace.path), state.theta.size),
    }
    if state.covariance is not None:
        arrays["covariance"] = state.covariance
    for name, view in (("train", state.train), ("pool", state.pool_view)):
        arrays |= {f"{name}.{n}": leaf for n, leaf in enumerate(jax.tree.leaves(view))}
    arrays |= {f"memory.{n}": leaf for n, leaf in enumerate(jax.tree.leaves(state.memory))}
    for name, records in (("history", state.history), ("evaluations", state.evaluations)):
        arrays |= {f"{name}.{key}": _column(records, key) for key in _NUMBERS}
        thetas = [record.theta for record in records]
        arrays[f"{name}.sizes"] = np.array([theta.size for theta in thetas], dtype=int)
        arrays[f"{name}.thetas"] = np.concatenate([*thetas, np.zeros(0)])
    return facts, {name: np.asarray(values) for name, values in arrays.items()}


def _restored(
    task: Task, begun: LearningState, stored: Stored, earlier: Task | None
) -> LearningState:
    facts, arrays = stored.facts["state"], stored.arrays
    pace = dataclasses.replace(
        begun.pace,
        path=tuple(arrays["pace.path"]),
        changes=tuple(float(change) for change in arrays["pace.changes"]),
        shortened=bool(facts["pace"]["shortened"]),
        **{name: int(facts["pace"][name]) for name in _COUNTS},
    )
    # Refused here if it is none.
    np.random.default_rng().bit_generator.state = facts["random"]
    state = dataclasses.replace(
        begun,
        theta=_shaped(arrays["theta"], begun.theta.shape, "theta"),
        result=None if facts["result"] is None else RESULTS[facts["result"]],
        nugget=float(facts["nugget"]),
        factorizations=int(facts["factorizations"]),
        local_searches=int(facts.get("local_searches", facts.get("looks", 0))),
        started=begun.started - float(facts["seconds"]),
        random=facts["random"],
        train=_view(arrays, "train", begun.train),
        covariance=arrays.get("covariance"),
        pace=pace,
        memory=_memory(task, begun, arrays) if facts["remembers"] else None,
        evaluations=_records(task, earlier, arrays, "evaluations", []),
        history=_records(task, earlier, arrays, "history", facts["residuals"]),
    )
    state = with_new_points(task, state)
    if state.pool_view is None:
        return state
    return dataclasses.replace(state, pool_view=_view(arrays, "pool", state.pool_view))


def _memory(task: Task, begun: LearningState, arrays: Mapping[str, np.ndarray]) -> Any:
    leaves, structure = jax.tree.flatten(task.optimizer.memory_like(begun.theta))
    found = [_shaped(arrays[f"memory.{n}"], np.shape(o), "memory") for n, o in enumerate(leaves)]
    return jax.tree.unflatten(
        structure,
        [
            float(new) if isinstance(old, float) else array(new)
            for new, old in zip(found, leaves, strict=True)
        ],
    )


def _records(
    task: Task,
    earlier: Task | None,
    arrays: Mapping[str, np.ndarray],
    name: str,
    residuals: Sequence[dict[str, float]],
) -> tuple[LearningRecord, ...]:
    columns = {key: arrays[f"{name}.{key}"] for key in _NUMBERS}
    ends = np.cumsum(arrays[f"{name}.sizes"])
    thetas = np.split(arrays[f"{name}.thetas"], ends[:-1]) if ends.size else []
    found = []
    for n, theta in enumerate(thetas):
        row = {key: column[n] for key, column in columns.items()}
        of = earlier if row["constant"] and earlier is not None else task
        found.append(
            LearningRecord(
                int(row["step"]),
                int(row["factorizations"]),
                float(row["loss"]),
                theta,
                of.hyperparameters_at(_shaped(theta, of.parameters.vector.shape, "a record")),
                bool(row["constant"]),
                dict(residuals[n]) if residuals else {},
                None if np.isnan(row["length"]) else float(row["length"]),
                None if np.isnan(row["change"]) else float(row["change"]),
                float(row["nugget"]),
                float(row["seconds"]),
            )
        )
    return tuple(found)


def _column(records: Sequence[LearningRecord], key: str) -> np.ndarray:
    values = [getattr(record, key) for record in records]
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _view(arrays: Mapping[str, np.ndarray], name: str, like: Linearization) -> Linearization:
    leaves, structure = jax.tree.flatten(like)
    found = [_shaped(arrays[f"{name}.{n}"], leaf.shape, name) for n, leaf in enumerate(leaves)]
    return jax.tree.unflatten(structure, [array(values) for values in found])


def _shaped(values: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    if values.shape != shape or not np.issubdtype(values.dtype, np.number):
        raise ValueError(f"{name} has shape {values.shape}, expected {shape}")
    return values


def _text(value: Any) -> str:
    """What something looks like, without where it is in memory."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
