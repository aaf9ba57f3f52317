"""Entry point of the `kernelpde` command: errors become exit codes, and text or JSON."""

import json
import os
import sys

import typer
from platformdirs import user_cache_dir

from kernelpde.cli._app import app
from kernelpde.errors import KernelPDEError, SolveError


def main() -> None:
    """Run the command given by `sys.argv`, and exit with its exit code."""
    os.environ["JAX_ENABLE_X64"] = "1"
    # Compiled programs are cached on disk. Variables of the user take precedence.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", user_cache_dir("kernelpde"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    try:
        code = app(standalone_mode=False)
    except SolveError as error:
        code = _report_error(error, str(error), 1)
    except KernelPDEError as error:
        code = _report_error(error, str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        # Invalid arguments. The class of typer's exceptions depends on its version.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        code = _report_error(error, message(), 2)
    sys.exit(code or 0)


def _report_error(error: Exception, message: str, code: int) -> int:
    if "--json" in sys.argv:
        content = {"kind": type(error).__name__, "message": message, "exit_code": code}
        typer.echo(json.dumps({"error": content}))
    usage = getattr(error, "show", None)
    if usage is not None and "--json" not in sys.argv:
        usage()
    else:
        typer.echo(f"kernelpde: {message}", err=True)
    return code
