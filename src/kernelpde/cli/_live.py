"""Progress display of a run on a terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import jax
from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from kernelpde.progress import Record, format_record
from kernelpde.solution import SolveRecord

_COMPILE_EVENTS = "/jax/core/compile/"
"""Prefix of the names of JAX's compilation events."""


class ProgressDisplay:
    """Current status and last record of a run, updated in place.

    The remaining time is estimated from `max_steps`. `compilation` is the time in seconds that JAX
    has spent on tracing and compiling.
    """

    def __init__(self, name: str, max_steps: int = 0):
        self.name, self.max_steps = name, max_steps
        self.compilation = 0.0
        self._start_time = time.perf_counter()
        self._record: Record | None = None
        self._last_step: Record | None = None
        self._first_step: tuple[int, float] | None = None
        self._evaluations = 0
        self._is_compiling = True
        self._status: str | None = "compiling"
        self._spinner = Spinner("dots")
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def set_status(self, status: str) -> None:
        """Show a status until the next record."""
        self._status = status

    def _listen(self, event: str, duration_secs: float, **metadata: str | int) -> None:
        del metadata
        if event.startswith(_COMPILE_EVENTS):
            self.compilation += duration_secs
            # Events mark the end of a phase: after the translation, compilation follows.
            self._is_compiling = event.endswith("to_mlir_module_duration")

    def __call__(self, record: Record) -> None:
        self._record, self._status = record, None
        self._evaluations += 1
        if record.is_step:
            self._last_step, self._evaluations = record, 0
            # Steps with stationary lengthscales are faster than the following ones.
            if self._first_step is None and not getattr(record, "stationary", False):
                self._first_step = (record.step, time.perf_counter())

    def __rich__(self) -> RenderableType:
        self._spinner.update(text=self._text())
        return self._spinner

    def _text(self) -> Text:
        elapsed = f"{time.perf_counter() - self._start_time:.0f} s"
        record = self._record
        if record is None or self._status is not None:
            return Text(f"{self.name}: {self._status or 'compiling'}, {elapsed}")
        # Rejected trial steps are not shown.
        last = self._last_step
        if last is None or last.kind != record.kind:
            last = record
        return Text.assemble(
            (f"{self.name}: ", "bold"),
            f"{self._phase(record)}, {elapsed}{self._time_left()}",
            ", compiling" if self._is_compiling else "",
            (f"\n{format_record(last)}", "dim"),
        )

    def _phase(self, record: Record) -> str:
        if isinstance(record, SolveRecord):
            return f"solving {record.step}/{self.max_steps}"
        if record.step == 0:
            return "comparing initial lengthscales"
        stationary = " with stationary lengthscales" if record.stationary else ""
        trial = f", evaluation {self._evaluations}" if self._evaluations else ""
        return f"learning {record.step}/{self.max_steps}{stationary}{trial}"

    def _time_left(self) -> str:
        if self._first_step is None or self._last_step is None:
            return ""
        (step, start_time), last_step = self._first_step, self._last_step.step
        if last_step <= step:
            return ""
        seconds = (time.perf_counter() - start_time) / (last_step - step)
        return f", at most {seconds * max(self.max_steps - last_step, 0):.0f} s left"


@contextmanager
def show_progress(name: str, quiet: bool) -> Iterator[ProgressDisplay]:
    """Show a progress display on standard error while the context is active, unless `quiet`."""
    display = ProgressDisplay(name)
    if quiet:
        yield display
        return
    with Live(display, console=Console(stderr=True), refresh_per_second=8, transient=True):
        yield display
