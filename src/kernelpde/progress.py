"""Callbacks for `solve` and `learn`: what to do with each record of a run under way.

A callback is any function of a `Record` (from `solve`) or a `LearningRecord` (from `learn`).
"""

import dataclasses
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kernelpde.archive import writing
from kernelpde.errors import InputError
from kernelpde.gauss_newton import Record
from kernelpde.learning import LearningRecord

Callback: TypeAlias = Callable[[Any], None]

_PAUSE = 0.2
"""Seconds between two lines in a notebook: what changes more often cannot be read."""


def together(*callbacks: Callback) -> Callback:
    """One callback that calls several, in order."""

    def call(record: Record | LearningRecord) -> None:
        for callback in callbacks:
            callback(record)

    return call


def facts_of(record: Record | LearningRecord) -> dict[str, Any]:
    """A record as plain numbers, text and lists, for JSON."""
    facts = {"kind": "solve" if isinstance(record, Record) else "learn"}
    facts |= dataclasses.asdict(record)
    facts.pop("theta", None)
    return facts


class Live:
    """Shows what a run is doing, in a notebook or on a terminal.

    In a notebook it is one line below the cell, which changes; on a terminal, a line of standard
    error for every step. Where nobody is watching, as in a log file, nothing is written.

    **Example:**

    ```python
    >>> solution = kp.solve(problem, points, callback=kp.progress.Live())
    ```
    """

    def __init__(self):
        self._begun, self._last = time.perf_counter(), -1.0
        self._handle: Any = None

    def __call__(self, record: Record | LearningRecord) -> None:
        passed = time.perf_counter() - self._begun
        step = isinstance(record, Record) or record.length is not None
        what = "solving" if isinstance(record, Record) else "learning"
        text = f"{passed:.0f} s  {what}  {in_words(record)}"
        if "ipykernel" in sys.modules and (step or passed - self._last > _PAUSE):
            self._last = passed
            from IPython.display import Pretty, display

            if self._handle is None:
                self._handle = display(Pretty(text), display_id=True)
            else:
                self._handle.update(Pretty(text))
        elif step and sys.stderr.isatty():
            print(text, file=sys.stderr)


class JSONLines:
    """Appends each record to a file, one JSON object per line.

    **Arguments:**

    - `path`: the file; existing lines are kept, so that a resumed run appends to it.
    """

    def __init__(self, path: str | Path):
        with writing(path) as self.path:
            pass

    def __call__(self, record: Record | LearningRecord) -> None:
        with writing(self.path) as path, open(path, "a") as file:
            file.write(json.dumps(facts_of(record)) + "\n")


class Logging:
    """Logs each step with Python's `logging`.

    **Arguments:**

    - `logger`: "kernelpde" by default.
    - `level`: of the messages.
    """

    def __init__(self, logger: logging.Logger | None = None, level: int = logging.INFO):
        self.logger = logging.getLogger("kernelpde") if logger is None else logger
        self.level = level

    def __call__(self, record: Record | LearningRecord) -> None:
        if isinstance(record, Record) or record.length is not None:
            self.logger.log(self.level, "%s", in_words(record))


class TensorBoard:
    """Writes losses, residuals and hyperparameters for TensorBoard.

    Needs the extra `tensorboard`.

    **Arguments:**

    - `directory`: what `tensorboard --logdir` is to be given.
    """

    def __init__(self, directory: str | Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:  # pragma: no cover
            raise InputError(
                "TensorBoard needs an extra: pip install 'kernelpde[tensorboard]'."
            ) from error
        self.writer = SummaryWriter(str(directory))
        self.evaluations = 0

    def __call__(self, record: Record | LearningRecord) -> None:
        if isinstance(record, LearningRecord):
            self.evaluations += 1
            if np.isfinite(record.loss):
                self.writer.add_scalar("loss", record.loss, self.evaluations)
            if record.length is None:
                return
            for name, value in scalars(record).items():
                self.writer.add_scalar(f"hyperparameters/{name}", value, record.step)
        for name, size in record.residuals.items():
            self.writer.add_scalar(f"residuals/{name}", size, record.step)
        if record.change is not None:
            self.writer.add_scalar("change", record.change, record.step)

    def close(self) -> None:
        """Write what is still in memory."""
        self.writer.close()


def scalars(record: LearningRecord) -> dict[str, float]:
    """The hyperparameters that are single numbers, and the range of those that are not."""
    found = {}
    for field, values in record.hyperparameters.items():
        for name, value in values.items():
            numbers = np.asarray(value, dtype=float).reshape(-1)
            if numbers.size == 1:
                found[f"{field}.{name}"] = float(numbers[0])
            elif numbers.size <= 3:
                found |= {f"{field}.{name}{n + 1}": float(v) for n, v in enumerate(numbers)}
            else:
                found[f"{field}.{name}.min"] = float(numbers.min())
                found[f"{field}.{name}.max"] = float(numbers.max())
    return found


def in_words(record: Record | LearningRecord) -> str:
    """A record in one line."""
    sizes = "  ".join(f"{name} {size:.2e}" for name, size in record.residuals.items())
    if isinstance(record, Record):
        whole = record.length == 1 and not record.damping
        how = "" if whole else f"  length {record.length:.3g} damping {record.damping:.0e}"
        return f"step {record.step}: residuals {sizes}  change {record.change:.1e}{how}"
    values = "  ".join(f"{name} {value:.4g}" for name, value in scalars(record).items())
    change = "" if record.change is None else f"  change {record.change:.1e}"
    return (
        f"step {record.step}: {record.factorizations} factorizations  loss {record.loss:.2e}  "
        f"residuals {sizes}  {values}{change}  nugget {record.nugget:.0e}"
    )
