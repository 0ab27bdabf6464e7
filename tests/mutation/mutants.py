"""A seeded sample of small changes to the source: does a test notice each? `make mutants`.

Each is made in a copy of the tree; the working tree is never touched. Results go to .mutants/mutants.jsonl as
they come: the same command goes on where it stopped, and `--again` repeats what survived.
`accepted.tsv` holds the reason why a survivor may live: module, function, change, reason.
"""

import argparse
import csv
import importlib
import json
import multiprocessing
import os
import random
import re
import resource
import shlex
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from tests.mutation.changes import mutants_of
from tests.mutation.table import TABLE

ROOT = Path(__file__).parents[2]
SOURCE = Path("src/meor")
WORK = ROOT / ".mutants"
RECORD, WHOLE, ACCEPTED = WORK / "mutants.jsonl", WORK / "whole", Path(__file__).with_name("accepted.tsv")
PYTEST = ["-x", "-q", "-n0", "--no-header", "-p", "no:cacheprovider", "-m", "not long"]
WARM = "torch numba pytest hypothesis scipy.stats pyarrow.parquet safetensors.torch pydantic typer filelock"


def all_mutants():
    """((module, function, change), changed source, pytest's arguments, compiled)"""
    taken = set()
    for patterns, tests, jit in TABLE:
        for pattern in patterns.split():
            for path in sorted((ROOT / SOURCE).glob(pattern if "/" in pattern else f"{pattern}/*.py")):
                if path not in taken:
                    taken.add(path)
                    module = str(path.relative_to(ROOT / SOURCE))
                    for function, change, source in mutants_of(path.read_text()):
                        yield (module, function, change), source, tests, jit


def tested(tree, tests, jit, limit):
    """How pytest ends, in a child forked from a process that has the libraries loaded."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(tree)
        log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
        sys.path[:0] = [str(tree), str(tree / "src")]
        os.environ |= {"PYTHONPATH": f"{tree}/src", "MEOR_EXAMPLES": "0.05"}
        importlib.import_module("numba").config.DISABLE_JIT = not jit
        words = [re.sub(r"^(?=[a-z_]+(/|$))", "tests/", word) for word in shlex.split(tests)]
        os._exit(int(importlib.import_module("pytest").main([*PYTEST, *words])))
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def prepare(wanted):
    """A tree with all kernels compiled, in which the tests pass; how long a mutant's tests may take."""
    for name in WARM.split():
        importlib.import_module(name)
    for old in WORK.glob("[!m]*"):
        shutil.rmtree(old)
    for folder in ("src", "tests", "docs"):
        shutil.copytree(ROOT / folder, WHOLE / folder)
    shutil.copy2(ROOT / "pyproject.toml", WHOLE)
    limits = {}
    for tests, jit in wanted:
        began = time.monotonic()
        if tested(WHOLE, tests, jit, 900) != "survived":
            sys.exit(f"These tests fail without any change: {tests} (see {WHOLE}/log.txt)")
        print(f"unchanged: {time.monotonic() - began:.0f} s for {tests}", flush=True)
        limits[tests] = 30 + 3 * (time.monotonic() - began)
    return limits


def attempt(task):
    """One mutant, in the worker's own tree; other kernels stay compiled, as files keep their times."""
    key, source, tests, jit, limit = task
    began, tree = time.monotonic(), WORK / f"tree-{os.getpid()}"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(WHOLE, tree)
    target = tree / SOURCE / key[0]
    target.write_text(source)
    for compiled in target.parent.glob(f"__pycache__/{target.stem}.*"):
        compiled.unlink()
    return key, tested(tree, tests, jit, limit), round(time.monotonic() - began, 1)


def main():
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--count", type=int, default=300)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--only", default="", help="modules whose name begins so")
    ask.add_argument("--again", action="store_true", help="try survivors again")
    given = ask.parse_args()
    everything = list(all_mutants())
    sample = random.Random(given.seed).sample(everything, min(given.count, len(everything)))
    sample = [each for each in sample if each[0][0].startswith(given.only)]
    known = {tuple(key): end for key, end, _ in map(json.loads, RECORD.open())} if RECORD.exists() else {}
    known = {key: end for key, end in known.items() if not (given.again and end == "survived")}
    todo = [each for each in sample if each[0] not in known]
    limits = prepare(dict.fromkeys(each[2:] for each in todo))
    tasks, began = [(*each, limits[each[2]]) for each in todo], time.monotonic()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for count, (key, end, seconds) in enumerate(pool.imap_unordered(attempt, tasks), 1):
            known[key] = end
            with RECORD.open("a") as file:
                file.write(json.dumps([key, end, seconds]) + "\n")
            left = (time.monotonic() - began) / count * (len(todo) - count) / 60
            print(f"{count}/{len(todo)}, {left:.0f} minutes left: {end}, {' | '.join(key)}", flush=True)
    show({each[0]: known[each[0]] for each in sample}, len(everything))


def show(ends, total):
    """Ends by folder, then each survivor with the reason why it may live."""
    rows = csv.reader(ACCEPTED.open(), delimiter="\t", quoting=csv.QUOTE_NONE)
    reasons = {tuple(row[:3]): row[3] for row in rows}
    counts = Counter((key[0].split("/")[0], end) for key, end in ends.items())
    print(f"\n{len(ends)} of {total} mutants\n{'':12}{'killed':>10}{'timeout':>10}{'survived':>10}")
    for folder in sorted({folder for folder, _ in counts}):
        print(
            f"{folder:12}" + "".join(f"{counts[folder, end]:10}" for end in ("killed", "timeout", "survived"))
        )
    alive = sorted(key for key, end in ends.items() if end == "survived")
    print(f"noticed: {1 - len(alive) / max(len(ends), 1):.1%}; not noticed:")
    for key in alive:
        print(f"  {' | '.join(key)}\n      {reasons.get(key, 'NOT EXPLAINED')}")
    sys.exit(any(key not in reasons for key in alive))


if __name__ == "__main__":
    main()
