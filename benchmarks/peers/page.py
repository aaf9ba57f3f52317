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

**The first table** says which other methods reach our error, and how fast. Ours takes long where
lengthscales vary (Burgers, eikonal) or fields are several (Gray-Scott, Schrodinger), and where much
has to be compiled; that is kept on disk, which saves a second process much of it.

All methods but `classical` and `finite elements` are given the residuals, points and
conditions that `kernelpde` is given. `kansa` is collocation with Gaussians, `fastlsq` random
Fourier features: of a few widths and bandwidths, as many as the tables say, the best by its true
error counts; a finer search may find better ones. The network takes Gauss-Newton steps in its
parameters; `deepxde` has as much CPU time as `kernelpde` takes cold, or ten times as much. Settings
are in `benchmarks/peers`: `python benchmarks/peers/run.py METHOD PROBLEM` runs one, and `python
benchmarks/peers/page.py` makes this page.

Lengthscales that a page of the gallery gives, as for Burgers' equation on a circle, were chosen by
hand on that problem. For it, with viscosity 0.01, sketched Gauss-Newton networks are reported at
3.9e-7 in 16 s on a large GPU ([arXiv:2607.02194](https://arxiv.org/abs/2607.02194)); the initial
values there may differ from ours.
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


def summary(found: dict[str, dict[tuple[str, str], dict[str, Any]]]) -> str:
    """For each problem ours, and the quickest of the others that is as accurate, or the closest."""
    lines = [
        "| problem | kernelpde: error, CPU cold, warm | as accurate, or the closest |",
        "|---|---|---|",
    ]
    for problem, cases in sorted(found.items()):
        good = {key: case for key, case in cases.items() if "error" in case}
        ours = good.get(("kernelpde", "default"))
        others = {key: case for key, case in good.items() if key[0] != "kernelpde"}
        if ours is None:
            continue
        about = "no other was run"
        if others:
            accurate = {k: c for k, c in others.items() if c["error"] <= ours["error"]}
            if accurate:
                (method, _), best = min(accurate.items(), key=lambda pair: pair[1]["cold"])
                about = f"{method}: {best['error']:.1e} in {best['cold']:.1f} s"
            else:
                (method, _), best = min(others.items(), key=lambda pair: pair[1]["error"])
                about = f"none; {method} has {best['error']:.1e} in {best['cold']:.1f} s"
        lines.append(
            f"| [{problem}](#{problem}) | {ours['error']:.1e}, {ours['cold']:.0f} s, "
            f"{ours['warm']:.1f} s | {about} |"
        )
    return "\n".join(lines)


def main() -> None:
    report = json.loads((ROOT / "results" / "peers.json").read_text())
    found = medians(report["runs"])
    texts = [INTRO.rstrip(), summary(found)]
    for problem, cases in sorted(found.items()):
        path = picture(problem, cases)
        image = f"![{problem}: error over CPU time](figures/peers/{path.name})"
        texts += [f"## {problem}", table(cases), image]
    (ROOT / "docs" / "peers.md").write_text("\n\n".join(texts) + "\n")


if __name__ == "__main__":
    main()
