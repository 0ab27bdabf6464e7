"""Cost of the penalty against the size of an admission, 1 thousand to 1 million newcomers.

One step's slice of a replay buffer (93 facts, both directions) against N newcomers: ComplEx 200, float32,
forward and backward. Up to 11,632 newcomers the rows are those that ENTITY's own updates learned (preset
practical, seed 0); above that they are drawn from these with replacement, plus seeded noise of a tenth of
their standard deviation. Each size is measured with and without pruning (`search.clumps`). Rows may move
at every step, so a step measures every row anew; what is made once per update (references, and which rows
make a clump) is timed apart.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import seconds
from meor.backbone import BACKBONES
from meor.methods import sparse
from meor.methods.comparison import Comparison
from meor.methods.penalty import Penalty
from meor.random import generator
from meor.run.config import Config
from meor.run.session import start
from meor.run.trainer import Resources
from meor.run.view import RunView
from meor.stream.registry import open_stream
from meor.stream.snapshot import Snapshot, Stream, Vocabulary
from meor.training.loss import Embedding

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FACTS = 93
NOISE = 0.1
RESULTS = Path("results/admission")


def trained_rows() -> tuple[np.ndarray, np.ndarray]:
    """Entity and relation rows of ENTITY after its last update."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        config = Config.gather(flags={"stream": "ENTITY"}, sets=["dtype=float32", "evaluation.updates=[1]"])
        start(config, out, resources=Resources(threads=torch.get_num_threads()))
        model = RunView.open(out).model(4)
        return model.entity.numpy(), model.relation.numpy()


def admission(n_new: int) -> Stream:
    """ENTITY's base and one update that admits `n_new` entities, each by one fact with an old one."""
    base = open_stream("ENTITY")
    n_old, m = base.entity_counts[0], base.relation_counts[0]
    draw = generator("admission", n_new)
    fact = np.stack(
        [np.arange(n_old, n_old + n_new), draw.integers(0, m, n_new), draw.integers(0, n_old, n_new)], 1
    )
    entities = Vocabulary()
    for label in (*base.entities.labels[:n_old], *(f"newcomer {i}" for i in range(n_new))):
        entities.admit(label, 0)
    nothing = np.empty((0, 3), np.int64)
    snapshots = base.snapshots[0], Snapshot(fact, nothing, nothing)
    return Stream("admission", entities, base.relations, snapshots, (n_old, n_old + n_new), (m, m))


def newcomer_rows(entity: np.ndarray, n_old: int, n_new: int) -> np.ndarray:
    own = entity[n_old:]
    if n_new <= len(own):
        return own[:n_new]
    draw = generator("admission rows", n_new)
    chosen = own[draw.integers(0, len(own), n_new)]
    for first in range(0, n_new, 65_536):  # in blocks: a million rows of noise at once need not fit
        part = chosen[first : first + 65_536]
        part += np.float32(NOISE * own.std()) * draw.standard_normal(part.shape, dtype=np.float32)
    return chosen


def measure(n_new: int, rows_file: Path) -> dict[str, float]:
    """One size, in a process of its own: seconds of a step and the memory it took."""
    with np.load(rows_file) as kept:
        entity, relation = kept["entity"], kept["relation"]
    stream = admission(n_new)
    n_old, m = stream.entity_counts[0], stream.relation_counts[0]
    rows = np.concatenate([entity[:n_old], newcomer_rows(entity, n_old, n_new)])
    table = Embedding.of(torch.from_numpy(rows), n_old)
    relations = Embedding.of(torch.from_numpy(relation[:m].copy()), m)
    fact = stream.snapshots[0].train[generator("admission facts").permutation(27_000)[:FACTS]]
    del entity, rows
    began = time.perf_counter()
    penalty = Penalty(Comparison.build(stream, 1, fact, run=0), BACKBONES["complex"], beside=True)
    penalty.frozen(table, relations)
    found: dict[str, float] = {"newcomers": n_new, "construction": time.perf_counter() - began}
    table.trained.grad = torch.zeros_like(table.trained)  # the host's, which the penalty's rows join
    index = np.arange(FACTS)

    def step() -> None:
        loss = penalty(table, relations, index)
        if loss.requires_grad:
            loss.backward()

    began = time.perf_counter()
    step()
    found["first_step"] = time.perf_counter() - began
    before = _resident()
    found["step"] = float(np.median([seconds(step) for _ in range(3)]))
    found["step_gib"] = max(_peak() - before, 0.0)
    clumps = penalty.frozen(table, relations).scratch.clumps
    found["clumps"] = 0 if clumps is None else len(clumps.centre)
    found["looked"] = 1.0 if clumps is None else clumps.looked
    sparse.MANY = n_new + 1
    step()
    found["unpruned_step"] = float(np.median([seconds(step) for _ in range(3)]))
    return found


def _resident() -> float:
    """Resident GiB now; the peak counter is reset, so that `_peak` speaks of what follows."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> float:
    return _status("VmHWM")


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def slope(sizes: list[float], values: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def against_size() -> dict[str, object]:
    """Every size in its own process; a table, a picture, and how steeply cost grows from 10,000 on."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        rows_file = Path(folder) / "rows.npz"
        entity, relation = trained_rows()
        np.savez(rows_file, entity=entity, relation=relation)
        for size in SIZES:
            command = [sys.executable, "-m", "benchmarks.admission", str(size), str(rows_file)]
            rows.append(
                json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            )
            print("  " + "  ".join(f"{name} {value:,.4g}" for name, value in rows[-1].items()), flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "admission.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows)
    large = [row for row in rows if row["newcomers"] >= 10_000]
    sizes = [row["newcomers"] for row in large]
    return {
        "what": f"a step of the penalty, {2 * FACTS} occurrences, ComplEx 200, float32, both ways",
        "slope_from_10k": slope(sizes, [row["step"] for row in large]),
        "slope_from_10k_unpruned": slope(sizes, [row["unpruned_step"] for row in large]),
        "largest_working_memory_gib": max(row["step_gib"] for row in rows),
        "seconds_at_1m": rows[-1]["step"],
        "unpruned_seconds_at_1m": rows[-1]["unpruned_step"],
    }


def draw(rows: list[dict[str, float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "meor"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.2))
    sizes = [row["newcomers"] for row in rows]
    axes.loglog(sizes, [row["step"] for row in rows], marker="o", label="a step")
    axes.loglog(
        sizes, [row["unpruned_step"] for row in rows], marker=".", color="tab:orange", label="without pruning"
    )
    straight = [rows[2]["step"] * size / sizes[2] for size in sizes]
    axes.loglog(sizes, straight, linewidth=0.8, linestyle=":", color="black", label="linear growth")
    axes.loglog(
        sizes,
        [row["construction"] for row in rows],
        linestyle="--",
        color="grey",
        label="references, once per update",
    )
    axes.set_xlabel("newcomers admitted")
    axes.set_ylabel("seconds")
    axes.set_title("Cost of the penalty's step against admission size\n186 occurrences, ComplEx 200, float32")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "admission.svg", metadata={"Date": None})
    figure.savefig(RESULTS / "admission.png", dpi=110)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), Path(sys.argv[2]))))
