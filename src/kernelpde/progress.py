"""Callbacks for `solve` and `learn`: progress display, log files and TensorBoard.

A callback is a function of a `SolveRecord` (from `solve`) or a `LearningRecord` (from `learn`).
If it returns True, the computation stops and returns the best result so far.
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

from kernelpde.checking import requires_extra
from kernelpde.io import prepare_write
from kernelpde.learning import LearningRecord
from kernelpde.solution import SolveRecord

Record: TypeAlias = SolveRecord | LearningRecord
Callback: TypeAlias = Callable[[Any], bool | None]

_MIN_INTERVAL = 0.2
"""Minimum time between two updates in a notebook, in seconds. Faster updates are unreadable."""


def combine(*callbacks: Callback) -> Callback:
    """Combine callbacks into one that calls them in order, and returns True if one of them does."""

    def call(record: Record) -> bool:
        stops = [callback(record) is True for callback in callbacks]
        return any(stops)

    return call


def record_to_dict(record: Record) -> dict[str, Any]:
    """Convert a record to JSON-serializable values."""
    fields = {"kind": record.kind} | dataclasses.asdict(record)
    fields.pop("theta", None)
    return fields


class Live:
    """Progress display for notebooks and terminals.

    In a notebook it is one line below the cell that is updated in place. On a terminal it is one
    line of standard error for each step. Nothing is written to files and pipes.

    **Example:**

    ```python
    >>> solution = kp.solve(problem, points, callback=kp.progress.Live())
    ```
    """

    def __init__(self):
        self._start_time, self._last_update = time.perf_counter(), -1.0
        self._handle: Any = None

    def __call__(self, record: Record) -> None:
        elapsed = time.perf_counter() - self._start_time
        phase = {"solve": "solving", "learn": "learning"}[record.kind]
        text = f"{elapsed:.0f} s  {phase}  {format_record(record)}"
        if "ipykernel" in sys.modules and (
            record.is_step or elapsed - self._last_update > _MIN_INTERVAL
        ):
            self._last_update = elapsed
            from IPython.display import Pretty, display

            if self._handle is None:
                self._handle = display(Pretty(text), display_id=True)
            else:
                self._handle.update(Pretty(text))
        elif record.is_step and sys.stderr.isatty():
            print(text, file=sys.stderr)


class JSONLines:
    """Callback that appends each record to a file, one JSON object per line.

    **Arguments:**

    - `path`: path of the file. Existing lines are kept, so that a resumed run appends to it.
    """

    def __init__(self, path: str | Path):
        with prepare_write(path) as self.path:
            pass

    def __call__(self, record: Record) -> None:
        with prepare_write(self.path) as path, open(path, "a") as file:
            file.write(json.dumps(record_to_dict(record)) + "\n")


class Logging:
    """Callback that logs each step with Python's `logging`.

    **Arguments:**

    - `logger`: logger; "kernelpde" by default.
    - `level`: level of the messages.
    """

    def __init__(self, logger: logging.Logger | None = None, level: int = logging.INFO):
        self.logger = logging.getLogger("kernelpde") if logger is None else logger
        self.level = level

    def __call__(self, record: Record) -> None:
        if record.is_step:
            self.logger.log(self.level, "%s", format_record(record))


class TensorBoard:
    """Callback that writes losses, residuals and hyperparameters for TensorBoard.

    It requires the extra `tensorboard`.

    **Arguments:**

    - `directory`: log directory, the argument of `tensorboard --logdir`.
    """

    def __init__(self, directory: str | Path):
        with requires_extra("TensorBoard", "tensorboard"):
            from tensorboardX import SummaryWriter
        self.writer = SummaryWriter(str(directory))
        self.evaluations = 0

    def __call__(self, record: Record) -> None:
        if isinstance(record, LearningRecord):
            self.evaluations += 1
            if np.isfinite(record.loss):
                self.writer.add_scalar("loss", record.loss, self.evaluations)
            if not record.is_step:
                return
            for name, value in scalar_hyperparameters(record).items():
                self.writer.add_scalar(f"hyperparameters/{name}", value, record.step)
        for name, rms in record.residuals.items():
            self.writer.add_scalar(f"residuals/{name}", rms, record.step)
        if record.change is not None:
            self.writer.add_scalar("change", record.change, record.step)

    def close(self) -> None:
        """Write buffered values to disk."""
        self.writer.close()


def scalar_hyperparameters(record: LearningRecord) -> dict[str, float]:
    """Return hyperparameters as scalars by name; of large arrays the minimum and maximum."""
    scalars = {}
    for field, hyperparameters in record.hyperparameters.items():
        for name, value in hyperparameters.items():
            label, values = f"{field}.{name}", np.asarray(value, dtype=float).reshape(-1)
            if values.size == 1:
                scalars[label] = float(values[0])
            elif values.size <= 3:
                scalars |= {f"{label}{k + 1}": float(v) for k, v in enumerate(values)}
            else:
                scalars |= {
                    f"{label}.min": float(values.min()),
                    f"{label}.max": float(values.max()),
                }
    return scalars


def format_record(record: Record) -> str:
    """Format a record as one line of text."""
    residuals = "  ".join(f"{name} {rms:.2e}" for name, rms in record.residuals.items())
    if isinstance(record, SolveRecord):
        text = f"step {record.step}: residuals {residuals}  change {record.change:.1e}"
        return text + (f"  damping {record.damping:.0e}" if record.damping else "")
    scalars = scalar_hyperparameters(record)
    values = "  ".join(f"{name} {value:.4g}" for name, value in scalars.items())
    change = "" if record.change is None else f"  change {record.change:.1e}"
    return (
        f"step {record.step}: {record.factorizations} factorizations  loss {record.loss:.2e}  "
        f"residuals {residuals}  {values}{change}  nugget {record.nugget:.0e}"
    )
