"""The tables of the paper as `kernelpde reproduce` computes them, for the site.

    python -m benchmarks reproduce [PART ...] [--out DIRECTORY]

Runs that are in the directory are not computed again.
"""

import json
import tempfile
from pathlib import Path

from benchmarks._report import SMALLEST, flat_errors, parser, record
from kernelpde.reproduce import PARTS, reproduce

FIGURES = ("converged", "result", "factorizations", "steps", "stopped", "seconds")


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all if none is named")
    command.add_argument("--out", type=Path)
    options = command.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.out or Path(temporary)
        for part in options.parts or PARTS:
            reproduce([part], quick=SMALLEST, out=directory, log=print)
            cases = json.loads((directory / f"reproduce-{part}.json").read_text())["cases"]
            for title, runs in cases.items():
                for run in runs:
                    record(
                        "reproduce",
                        {
                            "case": f"{part}: {title}",
                            "seed": run["seed"],
                            **flat_errors(run["errors"]),
                            **{key: run[key] for key in FIGURES if key in run},
                        },
                    )
