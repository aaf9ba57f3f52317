"""Computation of missing results, and loading of stored ones."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernelpde.checking import did_you_mean
from kernelpde.errors import InputError
from kernelpde.io import atomic_write, prepare_write, versions
from kernelpde.reproduce._cases import Run
from kernelpde.reproduce._figures import draw_run_charts, draw_solution
from kernelpde.reproduce._parts import PARTS
from kernelpde.reproduce._report import write_report

_QUICK_SEEDS = 1


def reproduce(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    out: str | Path = "results",
    log: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Compute the tables of the paper, and compare them with the published figures.

    Results in existing files are not computed again: remove a file to repeat its computation.

    **Arguments:**

    - `names`: names of the parts; all of `PARTS` if empty.
    - `quick`: use one small set of points, for a test of a few minutes without meaningful errors.
    - `out`: directory for `reproduce-NAME.json`, figures and the report.
    - `log`: function called with a message when a computation starts.

    **Returns:**

    The report, as Markdown and as HTML.
    """
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise InputError(
            f"reproduce: unknown part {unknown[0]!r}; expected one of {', '.join(PARTS)}."
            f"{did_you_mean(unknown[0], PARTS)}"
        )
    directory = Path(out)
    with prepare_write(directory / "reproduce.md"):
        pass
    results, figures = {}, {}
    for name in PARTS:
        if not names or name in names:
            results[name] = _compute_part(name, quick, directory, log)
        elif (stored := _read(directory, name, quick)) is not None:
            results[name] = stored
        if name in results:
            figures[name] = sorted(p.name for p in directory.glob(f"reproduce-{name}-*.png"))
    return write_report(directory, results, figures)


def _file(directory: Path, name: str) -> Path:
    return directory / f"reproduce-{name}.json"


def _read(directory: Path, name: str, quick: bool) -> dict[str, Any] | None:
    path = _file(directory, name)
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_text())
        matches = stored["quick"] == quick and isinstance(stored["cases"], dict)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is not a results file. Remove it to repeat the run.") from error
    if not matches:
        raise InputError(
            f"{path}: contains a {'quick' if stored['quick'] else 'full'} run. Use another --out "
            f"for a {'quick' if quick else 'full'} run."
        )
    return stored


def _compute_part(
    name: str, quick: bool, directory: Path, log: Callable[[str], None]
) -> dict[str, Any]:
    paper = PARTS[name]
    seeds = _QUICK_SEEDS if quick else paper.seeds
    stored = _read(directory, name, quick)
    cases: dict[str, list[Run]] = {} if stored is None else stored["cases"]
    report = {"quick": quick, "seeds": seeds, "versions": versions(), "cases": cases}
    if stored is not None:
        report["versions"] = stored["versions"]
    for seed in range(seeds):
        for index, (title, case) in enumerate(paper.cases.items()):
            if quick and case.full_only:
                continue
            runs = cases.setdefault(title, [])
            if any(run["seed"] == seed for run in runs):
                continue
            log(f"{name}: {title}, seed {seed}")
            computed = case.compute(seed, quick, cases)
            runs.append(computed.run)
            _write(_file(directory, name), report)
            if seed == 0 and index == 0 and not paper.figure_only:
                draw_solution(name, computed, directory)
    draw_run_charts(name, cases, directory)
    return report


def _write(path: Path, report: dict[str, Any]) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(report, indent=1) + "\n")
