"""Compare the behavior of the library with a frozen record of it.

    python benchmarks/gates.py [--quick] [--gates problems,paper] [--processes 2]
    python benchmarks/gates.py --quick --freeze

Each gate runs in a subprocess and returns a few figures. Every figure of every run is appended to
`results/gates.jsonl` as one line, and compared with its frozen line: the last one recorded with
`--freeze`, or else the first one. A figure passes if it is better than the frozen one or within 10%
of it. Integers are counts and may not be worse at all. Values below the floor of a figure are
rounding errors and count as equal. The exit code is 1 if a figure is worse or a gate failed.

`--quick` runs a fixed subset of each gate, in less than ten minutes on two cores. Figures of quick
and full runs are compared separately. CPU times are ratios to `import jax` in the same process, on
one core with an empty compilation cache; they are measured after all other gates, without company.

    problems         learning on random problems: convergence, errors, the best of eight kernels
    accuracy         requested accuracies: claimed, and true
    effectivity      estimated over true errors
    inverse          coverage of credible intervals
    units            the same problems in other units
    mistakes         errors with advice, raw exceptions, and mistakes that are accepted
    resume           learning that is killed (SIGKILL) and resumed, bit for bit
    transformations  jit, vmap and grad of `solve`
    paper            the rows of the paper's tables
    first-use        CPU time of the first import, solve and learn
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
if not __package__:
    sys.path[0] = str(ROOT)

# After the path of the repository is set, since this file is run as a script.
from benchmarks._gate_figures import TOLERANCE, Figure, Row  # noqa: E402
from benchmarks._gate_rows import GATES  # noqa: E402

RECORD = ROOT / "results" / "gates.jsonl"

QUICK_SECONDS = 600
"""Seconds after which a gate of a quick run has failed."""


def measured_commit() -> str:
    """Return the commit of the library, with a plus sign if its files have been changed."""
    import kernelpde

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(kernelpde.__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", ".")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if changed else "")


def run_here(name: str, quick: bool, into: Path) -> None:
    """Run one gate in this process and write its lines to a file."""
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    gate, rows = GATES[name], list[Row]()
    for row in gate.rows(quick):
        rows.append(row)
        shown = {k: v for k, v in row.items() if k in ("error", "result", "outcome", "gap", "case")}
        print(f"{name}: {row.get('name', '')} {row.get('seed', '')}", end=" ")
        print(*shown.values(), f"({time.process_time():.0f} s)", flush=True)
    packages = ("jax", "jaxlib", "numpy", "scipy", "equinox", "optax")
    versions = [f"python {platform.python_version()}", *(f"{p} {version(p)}" for p in packages)]
    common = {
        "seeds": gate.quick_seeds if quick else gate.full_seeds,
        "commit": measured_commit(),
        "versions": ", ".join(versions),
        "quick": quick,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": round(sum(os.times()[:4]), 1),
    }
    lines = []
    for figure in gate.figures(rows):
        cases = {case: float(f"{value:.3g}") for case, value in figure.cases.items()}
        value = np.asarray(figure.value).item()
        described = {"gate": name, "figure": figure.name, "value": value}
        direction = {"better": figure.better} | ({"floor": figure.floor} if figure.floor else {})
        lines.append({**described, **direction, **common, **({"cases": cases} if quick else {})})
    into.write_text(json.dumps(lines))


def run_gate(name: str, quick: bool, folder: Path) -> list[Row]:
    """Run one gate in a subprocess; no lines if it fails."""
    into = folder / f"{name}.json"
    command = [sys.executable, str(Path(__file__).resolve()), "--gates", name, "--into", str(into)]
    variables = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    start = time.perf_counter()
    try:
        subprocess.run(
            command + ["--quick"] * quick,
            env=os.environ | variables,
            check=True,
            timeout=QUICK_SECONDS if quick else None,
        )
    except subprocess.SubprocessError as error:
        print(f"{name}: failed, {type(error).__name__}", flush=True)
        return []
    print(f"{name}: done in {time.perf_counter() - start:.0f} s", flush=True)
    return json.loads(into.read_text())


Frozen = dict[tuple[str, str, bool], Row]


def frozen_lines(record: Path) -> Frozen:
    """Return the frozen line of each gate, figure and size of run."""
    frozen: Frozen = {}
    lines = record.read_text().splitlines() if record.exists() else []
    for line in map(json.loads, lines):
        key = line["gate"], line["figure"], line["quick"]
        if key not in frozen or line.get("frozen"):
            frozen[key] = line
    return frozen


def shown(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def changes(line: Row, frozen: Row) -> str:
    """Name the cases of a figure that changed by more than the tolerance, the largest first."""
    before, now = frozen.get("cases", {}), line.get("cases", {})
    ratios = {case: now[case] / before[case] for case in now.keys() & before.keys()}
    moved = [(case, r) for case, r in ratios.items() if abs(r - 1) > TOLERANCE]
    moved.sort(key=lambda pair: -max(pair[1], 1 / pair[1]))
    lost = sorted(before.keys() - now.keys())
    parts = [f"{case} x{ratio:.2g}" for case, ratio in moved[:4]] + [f"no {c}" for c in lost[:4]]
    return f" ({', '.join(parts)})" if parts else ""


def compare(names: list[str], quick: bool, lines: list[Row], frozen: Frozen) -> bool:
    """Print the table of all figures and return whether all of them pass."""
    now = {(line["gate"], line["figure"]): line for line in lines}
    before = {key[:2]: line for key, line in frozen.items() if key[0] in names and key[2] == quick}
    verdicts = []
    print("\n| gate | frozen | now | verdict |\n|---|---|---|---|")
    for key in sorted({**before, **now}, key=lambda key: names.index(key[0])):
        line, old = now.get(key), before.get(key, {})
        verdict = "missing"
        if line is not None:
            figure = Figure(key[1], line["value"], line["better"], line.get("floor", 0.0))
            verdict = figure.verdict(old.get("value"))
        verdicts.append(verdict)
        remark = changes(line, old) if line is not None and verdict != "same" else ""
        values = shown(old.get("value")), shown(None if line is None else line["value"])
        print(f"| {key[0]}: {key[1]} | {' | '.join(values)} | {verdict}{remark} |")
    bad = sum(verdict in ("worse", "missing") for verdict in verdicts)
    print(f"\n{len(verdicts)} figures, {bad} worse or missing.")
    return not bad


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the library with a frozen record.")
    parser.add_argument("--quick", action="store_true", help="a fixed subset of each gate")
    parser.add_argument("--freeze", action="store_true", help="freeze the figures of this run")
    parser.add_argument("--gates", default=",".join(GATES), help="names, separated by commas")
    parser.add_argument("--processes", type=int, default=2, help="gates that run at a time")
    parser.add_argument("--record", type=Path, default=RECORD, help="the file of all runs")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.gates.split(",")
    if unknown := [name for name in names if name not in GATES]:
        parser.error(f"--gates: unknown gate {unknown[0]!r}; expected some of {', '.join(GATES)}")
    if options.into is not None:
        run_here(names[0], options.quick, options.into)
        return 0
    start, results = time.perf_counter(), dict[str, list[Row]]()
    with tempfile.TemporaryDirectory() as folder:

        def run(name: str) -> None:
            results[name] = run_gate(name, options.quick, Path(folder))

        with ThreadPoolExecutor(options.processes) as pool:
            list(pool.map(run, [name for name in names if not GATES[name].timing]))
        for name in names:
            if GATES[name].timing:
                run(name)
    lines = [line for name in names for line in results[name]]
    frozen = frozen_lines(options.record)
    with options.record.open("a") as file:
        for line in lines:
            file.write(json.dumps(line | ({"frozen": True} if options.freeze else {})) + "\n")
    passed = compare(names, options.quick, lines, frozen)
    failed = [name for name in names if not results[name]]
    print(f"{time.perf_counter() - start:.0f} s; failed gates: {', '.join(failed) or 'none'}")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
