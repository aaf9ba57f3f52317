"""The live line of a run on a terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kernelpde.gauss_newton import Record
from kernelpde.learning import LearningRecord
from kernelpde.progress import scalars

_MOST = 6
"""So many hyperparameters fit on a line."""


class LiveLine:
    """What a run is doing now, in a few lines that stay where they are.

    **Arguments:**

    - `name`: of the problem.
    - `most`: the largest number of steps, for the time left.
    """

    def __init__(self, name: str, most: int):
        self.name, self.most = name, most
        self.begun = time.perf_counter()
        self.record: Record | LearningRecord | None = None
        self.step: LearningRecord | Record | None = None
        self.first: tuple[int, float] | None = None
        self.evaluations = 0
        self.spinner = Spinner("dots")

    def __call__(self, record: Record | LearningRecord) -> None:
        self.record = record
        self.evaluations += 1
        if isinstance(record, Record) or record.length is not None:
            self.step, self.evaluations = record, 0
            # Steps with constant lengthscales say nothing of the pace of those that follow.
            if self.first is None and not getattr(record, "constant", False):
                self.first = (record.step, time.perf_counter())

    def __rich__(self) -> Any:
        passed = time.perf_counter() - self.begun
        if self.record is None:
            return self._headed(Text(f"{self.name}: compiling, {passed:.0f} s"))
        record = self.record
        learning = isinstance(record, LearningRecord)
        head = Text.assemble(
            (f"{self.name}: ", "bold"),
            self._doing(record),
            f"  evaluation {self.evaluations}" if learning and self.evaluations else "",
            f"  loss {record.loss:.2e}" if isinstance(record, LearningRecord) else "",
            f"  nugget {record.nugget:.0e}",
            f"  {passed:.0f} s{self._left()}",
        )
        rows = Table.grid(padding=(0, 2))
        last = self.step or record
        if last.residuals:
            sizes = [f"{name} {size:.1e}" for name, size in last.residuals.items()]
            rows.add_row(Text("  residuals", style="dim"), "  ".join(sizes))
        if isinstance(record, LearningRecord):
            values = [f"{name} {value:.4g}" for name, value in scalars(record).items()]
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
def live(name: str, most: int, console: Console | None = None) -> Iterator[LiveLine]:
    """Show a live line on standard error while something runs; it vanishes at the end."""
    line = LiveLine(name, most)
    shown = Console(stderr=True) if console is None else console
    with Live(line, console=shown, refresh_per_second=8, transient=True):
        yield line
