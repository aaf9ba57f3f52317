"""What is asked for."""

from dataclasses import dataclass
from typing import Any

from kernelpde.checking import real_number, whole_number


@dataclass(frozen=True)
class Accuracy:
    """An accuracy, and what may be spent on it.

    **Arguments:**

    - `relative`: the error of each field, in root mean square relative to the field's own.
    - `at_most`: seconds after which no further level is begun that would take longer; as long as it
      takes if left out.
    - `max_rows`: of the linear systems; a few thousand take seconds.
    """

    relative: float
    at_most: float | None = None
    max_rows: int = 5000

    def __post_init__(self):
        real_number("Accuracy", "relative", self.relative, above=0, at_most=1)
        if self.at_most is not None:
            real_number("Accuracy", "at_most", self.at_most, above=0)
        whole_number("Accuracy", "max_rows", self.max_rows, at_least=1)

    @staticmethod
    def of(given: Any) -> "Accuracy":
        """From a number, or as it is."""
        return given if isinstance(given, Accuracy) else Accuracy(given)
