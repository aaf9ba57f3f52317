"""The live line of a run on a terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kernelpde.gauss_newton import Record
from kernelpde.learning import LearningRecord
from kernelpde.progress import scalars

_COMPILE = "/jax/core/compile/"
"""What JAX tells of its compilation begins with it."""

_MOST = 6
"""Maximum number of hyperparameters on a line."""


class LiveLine:
    """What a run is doing now, in a few lines that stay where they are.

    **Arguments:**

    - `name`: of the problem.
    - `most`: the largest number of steps, for the time left.

    **Attributes:**

    - `compilation`: seconds that JAX has spent tracing and compiling.
    """

    def __init__(self, name: str, most: int = 0):
        self.name, self.most = name, most
        self.begun = time.perf_counter()
        self.record: Record | LearningRecord | None = None
        self.step: LearningRecord | Record | None = None
        self.first: tuple[int, float] | None = None
        self.evaluations = 0
        self.spinner = Spinner("dots")
        self.compiling = True
        self.compilation = 0.0
        self.now: str | None = "compiling"
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def phase(self, what: str) -> None:
        """Say that something else is done now, until the next step."""
        self.now = what

    def _listen(self, event: str, duration_secs: float, **metadata: str | int) -> None:
        del metadata
        if event.startswith(_COMPILE):
            self.compilation += duration_secs
            # A program is translated, then compiled, and each is told when it is over.
            self.compiling = event.endswith("to_mlir_module_duration")

    def __call__(self, record: Record | LearningRecord) -> None:
        self.record, self.now = record, None
        self.evaluations += 1
        if isinstance(record, Record) or record.length is not None:
            self.step, self.evaluations = record, 0
            # Steps with constant lengthscales say nothing of the pace of those that follow.
            if self.first is None and not getattr(record, "constant", False):
                self.first = (record.step, time.perf_counter())

    def __rich__(self) -> Any:
        passed = time.perf_counter() - self.begun
        if self.record is None or self.now is not None:
            return self._headed(Text(f"{self.name}: {self.now or 'compiling'}, {passed:.0f} s"))
        record = self.record
        learning = isinstance(record, LearningRecord)
        # What was tried and not accepted is not shown.
        last = self.step if isinstance(self.step, type(record)) else record
        head = Text.assemble(
            (f"{self.name}: ", "bold"),
            self._doing(record),
            f"  evaluation {self.evaluations}" if learning and self.evaluations else "",
            f"  loss {last.loss:.2e}" if isinstance(last, LearningRecord) else "",
            f"  nugget {record.nugget:.0e}",
            f"  {passed:.0f} s{self._left()}",
            "  compiling" if self.compiling else "",
        )
        rows = Table.grid(padding=(0, 2))
        if last.residuals:
            sizes = [f"{name} {size:.1e}" for name, size in last.residuals.items()]
            rows.add_row(Text("  residuals", style="dim"), "  ".join(sizes))
        if isinstance(last, LearningRecord):
            values = [f"{name} {value:.4g}" for name, value in scalars(last).items()]
            more = f"  and {len(values) - _MOST} more" if len(values) > _MOST else ""
            rows.add_row(Text("  kernel", style="dim"), "  ".join(values[:_MOST]) + more)
        return Group(self._headed(head), rows)

    def _doing(self, record: Record | LearningRecord) -> str:
        if isinstance(record, Record):
            return f"solving  step {record.step}/{self.most}"
        if record.step == 0:
            return "comparing lengthscales"
        how = ", lengthscales constant" if record.constant else ""
        return f"learning{how}  step {record.step}/{self.most}"

    def _headed(self, text: Text) -> Table:
        table = Table.grid(padding=(0, 1))
        table.add_row(self.spinner, text)
        return table

    def _left(self) -> str:
        if self.first is None or self.step is None or self.step.step <= self.first[0]:
            return ""
        made = self.step.step - self.first[0]
        pace = (time.perf_counter() - self.first[1]) / made
        return f", at most {pace * max(self.most - self.step.step, 0):.0f} s left"


@contextmanager
def live(name: str, quiet: bool, console: Console | None = None) -> Iterator[LiveLine]:
    """A line that shows itself on standard error while something runs and vanishes at the end.

    **Arguments:**

    - `name`: of the problem.
    - `quiet`: whether it only keeps time.
    - `console`: where to show it.
    """
    line = LiveLine(name)
    if quiet:
        yield line
        return
    shown = Console(stderr=True) if console is None else console
    with Live(line, console=shown, refresh_per_second=8, transient=True):
        yield line
