"""The code in the README runs as written."""

import json
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


DOCS = README.parent / "docs"


def test_code_of_the_page_on_inverse_problems(capsys):
    (block,) = re.findall(
        r"```python\n(.*?)```", (DOCS / "inverse.md").read_text(), flags=re.DOTALL
    )
    exec(compile(block, "inverse.md", "exec"), {})
    assert re.match(r"1\.\d+ ± 0\.\d+ \(95%", capsys.readouterr().out)


def test_figures_of_inverse_problems_are_those_of_the_last_measurement():
    report = json.loads((README.parent / "results" / "inverse-darcy.json").read_text())["cases"]
    for page in (README, DOCS / "inverse.md"):
        text = page.read_text()
        for count in (60, 180):
            case = report[f"learned, {count} observations"]
            figures = f"| {case['median l2 of u']:.1e} | {case['median relative of a']:.3f} |"
            assert figures in text, (page.name, count)


def test_code_blocks(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "Solution: converged" in shown
    assert "equation: 900 points" in shown


def test_figures_are_those_of_the_last_measurement():
    report = json.loads((README.parent / "results" / "accuracy.json").read_text())
    text = README.read_text()
    for name in ("uniform, refinement 0", "uniform, refinement 2", "halton, refinement 2"):
        assert f"| {report['errors'][name]['l2']['median']:.1e} |" in text, name


LEARNED = {
    "elliptic": ("learning-default", "from 1.0", ("median l2",)),
    "elliptic, additive kernel": ("learning-additive", "default", ("median l2",)),
    "Gray-Scott, u and v": ("systems-gray-scott", "from 1.0", ("median l2 of u", "median l2 of v")),
    "Gray-Scott, case C re-used": (
        "systems-gray-scott",
        "reuse gray-scott-c",
        ("median l2 of u", "median l2 of v"),
    ),
    "Burgers": ("rough-burgers-bumps", "learned", ("median_l2",)),
    "eikonal": ("rough-eikonal-bumps", "learned", ("median_l2",)),
    "Schrodinger, abs(h)": ("systems-schrodinger", "from 1.0", ("median l2 of abs(h)",)),
}


def test_learned_figures_are_those_of_the_last_measurement():
    lines = README.read_text().splitlines()
    for label, (name, case, keys) in LEARNED.items():
        report = json.loads((README.parent / "results" / f"{name}.json").read_text())
        figures = ", ".join(f"{report['cases'][case][key]:.1e}" for key in keys)
        (line,) = [line for line in lines if line.startswith(f"| {label} |")]
        assert line.split("|")[3].strip() == figures, label
