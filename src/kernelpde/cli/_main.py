"""The `kernelpde` command: every failure leaves with its exit code, as text or as JSON."""

import json
import os
import sys

import typer

from kernelpde.cli._earlier import app
from kernelpde.errors import KernelPDEError, SolveError


def main() -> None:
    """Run the command that the arguments name."""
    os.environ["JAX_ENABLE_X64"] = "1"
    try:
        code = app(standalone_mode=False)
    except SolveError as error:
        code = _failed(error, str(error), 1)
    except KernelPDEError as error:
        code = _failed(error, str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        # Arguments that cannot be read; what typer raises has had several names.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        code = _failed(error, message(), 2)
    sys.exit(code or 0)


def _failed(error: Exception, message: str, code: int) -> int:
    if "--json" in sys.argv:
        facts = {"kind": type(error).__name__, "message": message, "exit_code": code}
        typer.echo(json.dumps({"error": facts}))
    usage = getattr(error, "show", None)
    if usage is not None and "--json" not in sys.argv:
        usage()
    else:
        typer.echo(f"kernelpde: {message}", err=True)
    return code
