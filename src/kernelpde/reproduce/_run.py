"""Running what is missing, and loading what is there."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernelpde.archive import replacing, versions, writing
from kernelpde.checking import did_you_mean
from kernelpde.errors import InputError
from kernelpde.reproduce._cases import Run
from kernelpde.reproduce._figures import draw_charts_of, draw_solution
from kernelpde.reproduce._parts import PARTS
from kernelpde.reproduce._report import write_report

_QUICK_SEEDS = 1


def reproduce(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    out: str | Path = "results",
    say: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Compute the tables of the paper, and write them beside the published numbers.

    Results already in a file are not computed again: remove the file to start over.

    **Arguments:**

    - `names`: which parts; all of `PARTS` if empty.
    - `quick`: a few minutes in total, with fewer points and one set of them; the numbers then show
      that everything works, not how well.
    - `out`: directory for `reproduce-NAME.json`, figures and the report.
    - `say`: called with a message when a computation starts.

    **Returns:**

    The report, as Markdown and as HTML.
    """
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise InputError(
            f"reproduce: unknown part {unknown[0]!r}; there are {', '.join(PARTS)}."
            f"{did_you_mean(unknown[0], PARTS)}"
        )
    directory = Path(out)
    with writing(directory / "reproduce.md"):
        pass
    found, figures = {}, {}
    for name in PARTS:
        if not names or name in names:
            found[name] = _part(name, quick, directory, say)
        elif (kept := _read(directory, name, quick)) is not None:
            found[name] = kept
        if name in found:
            figures[name] = sorted(p.name for p in directory.glob(f"reproduce-{name}-*.png"))
    return write_report(directory, found, figures)


def _file(directory: Path, name: str) -> Path:
    return directory / f"reproduce-{name}.json"


def _read(directory: Path, name: str, quick: bool) -> dict[str, Any] | None:
    path = _file(directory, name)
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text())
        fits = kept["quick"] == quick and isinstance(kept["cases"], dict)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is not a results file; remove it to begin anew.") from error
    if not fits:
        raise InputError(
            f"{path}: holds a {'quick' if kept['quick'] else 'full'} run; use another --out for "
            f"a {'quick' if quick else 'full'} one."
        )
    return kept


def _part(name: str, quick: bool, directory: Path, say: Callable[[str], None]) -> dict[str, Any]:
    part = PARTS[name]
    seeds = _QUICK_SEEDS if quick else part.seeds
    kept = _read(directory, name, quick)
    cases: dict[str, list[Run]] = {} if kept is None else kept["cases"]
    report = {"quick": quick, "seeds": seeds, "versions": versions(), "cases": cases}
    if kept is not None:
        report["versions"] = kept["versions"]
    for seed in range(seeds):
        for number, (title, case) in enumerate(part.cases.items()):
            if quick and case.full_only:
                continue
            runs = cases.setdefault(title, [])
            if any(run["seed"] == seed for run in runs):
                continue
            say(f"{name}: {title}, seed {seed}")
            computed = case.compute(seed, quick, cases)
            runs.append(computed.run)
            _write(_file(directory, name), report)
            if seed == 0 and number == 0 and not part.figure_only:
                draw_solution(name, computed, directory)
    draw_charts_of(name, cases, directory)
    return report


def _write(path: Path, report: dict[str, Any]) -> None:
    with replacing(path) as beside:
        beside.write_text(json.dumps(report, indent=1) + "\n")
