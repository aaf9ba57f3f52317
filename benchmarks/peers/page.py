"""From `results/peers.json` the page `docs/peers.md` and a picture for each problem.

python benchmarks/peers/page.py
"""

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

ROOT = Path(__file__).parent.parent.parent
MARKS = "osD^vP*"

INTRO = """# Measured against others

Relative error against CPU seconds on one core of the same machine, each run in a process of its
own. *Cold* is the first solve with everything compiled anew, *warm* the second in the same
process; imports are left out. Filled marks are warm, hollow ones cold. Medians over seeds where
there are several.

**On boxes, with smooth solutions, classical methods win**: Chebyshev collocation and Fourier
series need a tenth of a second where `kernelpde` needs ten. They are in the pictures for that
reason. What speaks for `kernelpde` there is that nothing has to be derived or discretized, and
that the same lines work on the next shape, with data, and with unknown coefficients.

All methods but `classical` and `finite elements` are given the residuals, points and
conditions that `kernelpde` is given. `kansa` is collocation with Gaussians whose width was chosen
by its true error; `fastlsq` has a grid of bandwidths and, as "auto", its own choice; the network
takes Gauss-Newton steps in its parameters. Settings are in `benchmarks/peers`, which `python
benchmarks/peers/run.py METHOD PROBLEM` runs and `python benchmarks/peers/page.py` makes this page
of.
"""


def medians(runs: list[dict[str, Any]]) -> dict[str, dict[tuple[str, str], dict[str, Any]]]:
    """For each problem the runs by method and setting."""
    apart: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        apart[run["problem"], run["method"], run["setting"]].append(run)
    found: dict[str, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
    for (problem, method, setting), same in apart.items():
        good = [run for run in same if "failed" not in run]
        if good:
            middle = {k: statistics.median(r[k] for r in good) for k in ("error", "cold", "warm")}
            found[problem][method, setting] = middle | {"seeds": len(good)}
        else:
            found[problem][method, setting] = {"failed": same[0]["failed"]}
    return found


def picture(problem: str, cases: dict[tuple[str, str], dict[str, Any]]) -> Path:
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axis = figure.subplots()
    methods = sorted({method for method, _ in cases})
    for number, method in enumerate(methods):
        points = [c for (m, _), c in cases.items() if m == method and "error" in c]
        color, mark = f"C{number}", MARKS[number % len(MARKS)]
        for key, face in (("warm", color), ("cold", "none")):
            axis.plot(
                [c[key] for c in points],
                [c["error"] for c in points],
                mark,
                color=color,
                markerfacecolor=face,
                label=method if key == "warm" else None,
            )
    axis.set(
        xscale="log", yscale="log", xlabel="CPU seconds", ylabel="relative error", title=problem
    )
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    path = ROOT / "docs" / "figures" / "peers" / f"{problem}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    return path


def table(cases: dict[tuple[str, str], dict[str, Any]]) -> str:
    """The best setting of each method by its error, and how many there were."""
    lines = [
        "| method | best setting | relative error | CPU cold | CPU warm |",
        "|---|---|---|---|---|",
    ]
    for method in sorted({m for m, _ in cases}):
        own = {s: c for (m, s), c in cases.items() if m == method}
        good = {s: c for s, c in own.items() if "error" in c}
        if not good:
            reason = next(iter(own.values()))["failed"]
            lines.append(f"| {method} | | {reason} | | |")
            continue
        setting, best = min(good.items(), key=lambda pair: pair[1]["error"])
        of = f" (of {len(own)})" if len(own) > 1 else ""
        lines.append(
            f"| {method} | {setting}{of} | {best['error']:.1e} | {best['cold']:.1f} s | "
            f"{best['warm']:.1f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    report = json.loads((ROOT / "results" / "peers.json").read_text())
    texts = [INTRO.rstrip()]
    for problem, cases in sorted(medians(report["runs"]).items()):
        path = picture(problem, cases)
        image = f"![{problem}: error over CPU time](figures/peers/{path.name})"
        texts += [f"## {problem}", table(cases), image]
    (ROOT / "docs" / "peers.md").write_text("\n\n".join(texts) + "\n")


if __name__ == "__main__":
    main()
