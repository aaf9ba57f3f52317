"""How results show themselves in notebooks: their summary, and a picture below it."""

import html
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from kernelpde.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESOLUTION = 60
"""Of pictures that nobody has asked for: a fraction of a second."""


class InNotebooks:
    """A result with `plot`, which Jupyter shows as its summary and a small picture."""

    plot: Callable[..., Any]

    def _repr_html_(self) -> str:
        return as_html(repr(self), lambda: self.plot(resolution=RESOLUTION))


def as_html(text: str, plot: Callable[[], "Figure"]) -> str:
    """A summary and, where one can be drawn, a picture.

    **Arguments:**

    - `text`: the summary.
    - `plot`: draws the picture. Without matplotlib, or where kernelpde says that it cannot be
      drawn, there is none: what cannot be looked at is still a result.
    """
    summary = f"<pre>{html.escape(text)}</pre>"
    try:
        figure = plot()
    except (ImportError, InputError):
        return summary
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=72)
    import matplotlib.pyplot as plt

    # Otherwise Jupyter would show it once more, at the end of the cell.
    plt.close(figure)
    picture = b64encode(buffer.getvalue()).decode()
    return f'{summary}<img alt="solution" src="data:image/png;base64,{picture}">'
