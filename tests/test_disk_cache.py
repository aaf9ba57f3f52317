"""Programs on disk, found by a second process; and nothing that is wrong with them matters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_CHILD = """
import jax
jax.config.update("jax_enable_x64", True)
counts = {"/jax/compilation_cache/cache_hits": 0, "/jax/compilation_cache/cache_misses": 0}
def count(event, **_):
    if event in counts:
        counts[event] += 1
jax.monitoring.register_event_listener(count)
import kernelpde as kp
line = kp.Box(x=(0.0, 1.0))
problem = kp.Problem(
    kp.Condition("equation", line.interior, lambda x, u: -u.laplacian + u.value**3 - 1.0),
    kp.Condition("ends", line.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(0.3))],
)
settings = [
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
]
before = [getattr(jax.config, name) for name in settings]
value = float(kp.solve(problem, {"equation": 15, "ends": 2})["u"]([[0.5]])[0])
assert before == [getattr(jax.config, name) for name in settings]
from kernelpde import disk_cache
with disk_cache.used("one"):
    with disk_cache.used("two"):
        pass
    assert before[0] or getattr(jax.config, settings[1]) in (0.0, before[1])
assert before == [getattr(jax.config, name) for name in settings]
print(*counts.values(), value.hex())
"""


def run(cache: str, **variables: str) -> tuple[int, int, str]:
    """Programs found and missed by another process, and its answer; warnings are errors there."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", _CHILD],
        env=os.environ | {"KERNELPDE_CACHE": cache} | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    found, missed, value = ended.stdout.split()
    return int(found), int(missed), value


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> tuple[Path, int, str]:
    """A cache that one process has filled, how many programs it made, and its answer."""
    cache = tmp_path_factory.mktemp("programs")
    found, missed, value = run(str(cache))
    assert found == 0
    assert missed >= 5
    return cache, missed, value


def programs(cache: Path) -> list[Path]:
    return [path for path in cache.glob("*/*") if path.is_file()]


def test_a_second_process_compiles_nothing(filled):
    cache, made, value = filled
    assert run(str(cache)) == (made, 0, value)


def test_damaged_programs_are_compiled_again(filled, tmp_path):
    cache, made, value = filled
    for number, path in enumerate(programs(cache)):
        content = bytearray(path.read_bytes())
        middle = len(content) // 2
        if number % 3 == 0:
            content = content[:middle]
        elif number % 3 == 1:
            content.clear()
        else:
            content[middle : middle + 64] = bytes(255 - b for b in content[middle : middle + 64])
        copy = tmp_path / path.relative_to(cache)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(content)
    assert run(str(tmp_path))[2] == value
    assert run(str(tmp_path)) == (made, 0, value)


def test_a_place_that_cannot_be_written_is_not_used(filled, tmp_path):
    _, _, value = filled
    occupied = tmp_path / "file"
    occupied.write_text("")
    assert run(str(occupied)) == (0, 0, value)
    assert run("/proc/kernelpde") == (0, 0, value)


def test_it_can_be_switched_off_and_be_somebody_elses(filled, tmp_path):
    _, _, value = filled
    assert run("off", XDG_CACHE_HOME=str(tmp_path)) == (0, 0, value)
    assert not programs(tmp_path)
    own = tmp_path / "own"
    run(str(tmp_path / "ours"), JAX_COMPILATION_CACHE_DIR=str(own))
    assert not (tmp_path / "ours").exists()
