"""For which processor code is compiled, where it goes when nothing beside it can be written, and threads that
end with the process."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from llvmlite import binding

import meor
from meor.compiled import family, on_first_compile, set_threads, share

SOURCE = Path(meor.__file__).parent
DROP, MAY_WRITE_ANYWHERE = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
KERNEL = """
import numpy as np
from meor.cohort.draw import below
print(below(np.uint64(2**31), np.uint64(0), 10), below.stats.cache_path)
import os, sys
print(oct(os.stat(os.environ.get("NUMBA_CACHE_DIR", sys.prefix)).st_mode & 0o777))
"""


@pytest.fixture(scope="module")
def hardened(tmp_path_factory: pytest.TempPathFactory):
    """A copy of the package and a home, neither of them writable, nor ever compiled."""
    place = tmp_path_factory.mktemp("hardened")
    shutil.copytree(SOURCE, place / "package" / "meor", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "home").mkdir()
    folders = [place / "home", *(each for each in (place / "package").rglob("*") if each.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield place
    for folder in folders:
        folder.chmod(0o755)


def _bound_by_permissions() -> None:
    ctypes.CDLL(None).prctl(DROP, MAY_WRITE_ANYWHERE, 0, 0, 0)  # root too, as it is in a container


def _started(place: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {"PATH": os.environ["PATH"], "HOME": str(place / "home"), "PYTHONPATH": str(place / "package")}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**known, **environment},
        preexec_fn=_bound_by_permissions,
        check=False,
    )


def test_a_kernel_runs_where_package_and_home_are_read_only_with_one_line_of_notice(hardened):
    done = _started(hardened, KERNEL)
    assert done.returncode == 0, done.stderr
    result, mode = done.stdout.splitlines()
    assert result.startswith("5 ")
    assert mode == "0o700"
    notice = done.stderr.splitlines()
    assert len(notice) == 1
    assert "NUMBA_CACHE_DIR" in notice[0]
    folder = re.search(r"goes to (\S+) until", notice[0])
    assert folder is not None
    assert result.split()[1].startswith(folder[1])
    assert not Path(folder[1]).exists()  # nothing is left behind


def test_a_place_of_the_users_own_keeps_compiled_code(hardened, tmp_path):
    done = _started(hardened, KERNEL, MEOR_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    kept = tmp_path / f"meor-compiled-{os.getuid()}"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert list(kept.rglob("*.nbc"))
    assert str(kept) in done.stderr


@pytest.mark.parametrize("trap", ["anyone may write", "a link"])
def test_a_place_that_another_user_could_poison_is_not_used(hardened, tmp_path, trap):
    """numba unpickles what it finds: whoever can write there can run code as us."""
    shared = tmp_path / "shared"
    shared.mkdir()
    kept = shared / f"meor-compiled-{os.getuid()}"
    if trap == "a link":
        (tmp_path / "elsewhere").mkdir()
        kept.symlink_to(tmp_path / "elsewhere")
    else:
        shared.chmod(0o777)
    done = _started(hardened, KERNEL, XDG_RUNTIME_DIR=str(shared))
    assert done.returncode == 0, done.stderr
    assert str(shared) not in done.stdout + done.stderr
    assert not list(tmp_path.rglob("*.nbc"))


def test_where_nothing_at_all_can_be_written_kernels_are_compiled_and_not_kept(hardened):
    no_folder = "import tempfile; tempfile.tempdir = '/nonexistent'\n"
    done = _started(hardened, no_folder + KERNEL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("5 ")
    assert "cannot be kept" in done.stderr


def test_help_needs_no_compiled_code(hardened):
    done = _started(hardened, "import sys; sys.argv = ['meor', '--help']; from meor.cli import main; main()")
    assert done.returncode == 0
    assert done.stderr == ""


def test_every_kernel_goes_through_here():
    """One that asks numba itself could not start in a container."""
    direct = re.compile(r"from numba import .*\bn?jit\b|numba\.n?jit|nb\.n?jit")
    using = [file.name for file in SOURCE.rglob("*.py") if direct.search(file.read_text(encoding="utf-8"))]
    assert using == ["compiled.py"]


def test_compiling_is_said_once_and_loading_is_not() -> None:
    said: list[str] = []
    on_first_compile(lambda: said.append("compiling"))

    twice = numba.njit(lambda x: 2 * x)
    assert said == []
    assert (twice(2), twice(2.0)) == (4, 4.0)
    assert said == ["compiling"]


def test_ctrl_c_while_a_thread_starts_does_not_keep_the_process_from_ending() -> None:
    code = """
import os, threading
from meor.compiled import set_threads, share

start = threading.Thread.start
def interrupted(thread):
    start(thread)
    raise KeyboardInterrupt

os.cpu_count = lambda: 2
threading.Thread.start = interrupted
set_threads(2)
share(lambda begin, end: None, 100)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "KeyboardInterrupt" in done.stderr


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("count", "most"), [(0, None), (1, None), (10, None), (10, 3), (10, 10), (10, 99)])
def test_every_item_is_done_once_and_at_most_so_many_at_a_time(threads, count, most) -> None:
    blocks: list[range] = []
    set_threads(threads)
    try:
        share(lambda begin, end: blocks.append(range(begin, end)), count, most=most)
    finally:
        set_threads(1)
    assert sorted(item for block in blocks for item in block) == list(range(count))
    assert all(0 < len(block) <= (most or count) for block in blocks)


AVX2 = {"avx2": True, "fma": True, "bmi2": True}
AVX512 = {**AVX2, **{f"avx512{part}": True for part in ("f", "bw", "dq", "vl", "vnni")}}


@pytest.mark.parametrize(
    ("has", "made_for"),
    [
        (AVX512, "icelake-server"),
        ({**AVX512, "avx512fp16": True, "clwb": True}, "icelake-server"),  # a newer one of the same family
        ({**AVX512, "avx512vnni": False}, "haswell"),
        (AVX2, "haswell"),
        ({"sse2": True}, None),
        ({"neon": True}, None),
    ],
)
def test_processors_of_a_family_get_the_same_code(has, made_for):
    assert family(has) == made_for


@pytest.mark.parametrize("named", [None, "generic"])
def test_a_processor_that_the_user_names_is_taken(named):
    code = "import meor.compiled, numba; print(numba.config.CPU_NAME)"
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CPU_NAME"}
    environment |= {"NUMBA_CPU_NAME": named} if named else {}
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout.strip()
    assert told == (named or str(family(binding.get_host_cpu_features())))
