"""HTML representation of results in notebooks: the summary and a small plot."""

import html
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

from kernelpde.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RESOLUTION = 60
"""Points along each coordinate of the plot: notebooks draw it for every displayed result, so it
has to be fast."""


class NotebookDisplay:
    """A result with a method `plot`, displayed in notebooks as its summary and a small plot."""

    plot: Callable

    def _repr_html_(self) -> str:
        return figure_to_html(repr(self), self.plot)


def figure_to_html(summary: str, plot: Callable[..., "Figure"]) -> str:
    """Return a summary with a plot as HTML.

    Without matplotlib, or if `plot` raises an `InputError`, the summary alone.
    """
    text = f"<pre>{html.escape(summary)}</pre>"
    try:
        figure = plot(resolution=_RESOLUTION)
    except (ImportError, InputError):
        return text
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=72)
    import matplotlib.pyplot as plt

    # Jupyter shows figures that are still open again at the end of the cell.
    plt.close(figure)
    data = b64encode(buffer.getvalue()).decode()
    return f'{text}<img alt="solution" src="data:image/png;base64,{data}">'
