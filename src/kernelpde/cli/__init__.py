"""The `kernelpde` command.

It needs the extra `cli`. Importing this package imports neither JAX nor NumPy.
"""

import sys

try:
    import rich as _rich
    import typer as _typer
except ImportError:  # pragma: no cover
    sys.exit("The kernelpde command needs the extra 'cli': pip install 'kernelpde[cli]'.")
else:
    del _rich, _typer

from kernelpde.cli._app import app as app
from kernelpde.cli._main import main as main
