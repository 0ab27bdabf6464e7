"""A study's numbers again, from its runs' ranks.parquet alone: python recompute_tables.py STUDY [RUNS]"""

import csv
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

ROLE = {"H_cur": "historical", "H_old": "historical", "A_TN": "target_newcomer", "A_QN": "query_newcomer"}


def endpoints(run):
    cells = {name: [] for name in ROLE}
    for path in run.glob("update-*/ranks.parquet"):
        table = pq.ParquetFile(path).read()
        column = {name: table[name].to_numpy() for name in table.column_names}
        for side in ("head", "tail"):
            for name, role in ROLE.items():
                chosen = (column["split"] == "test") & (column["side"] == side) & (column["role"] == role)
                rank = column["rank_old" if name == "H_old" else "rank_cur"][chosen]
                cells[name].append((1 / rank).mean() if len(rank) else np.nan)
    found = {name: np.mean(values) for name, values in cells.items()}
    return {**found, "D_MCI": found["H_old"] - found["H_cur"]}


def differences(study, folder):
    rows = pq.ParquetFile(study / "runs.parquet").read().to_pylist()
    found = {run: endpoints(folder / run) for run in {row["run"] for row in rows}}
    for row in rows:
        yield from (
            abs(found[row["run"]][name] - row[name]) for name in (*ROLE, "D_MCI") if row[name] is not None
        )
    for line in csv.DictReader((study / "effects.csv").open(encoding="utf-8")):
        place = ("stream", "backbone", "host", "preset")
        pairs = [{}, {}]
        for row in rows:
            here = all(row[key] == line[key] for key in place) and row["coefficient_rule"] in (
                "none",
                line["rule"],
            )
            if here and (line["rule"] != "balance" or row["multiple"] in (None, 1.0)):
                for side, method in zip(pairs, (line["method"], line["comparator"]), strict=True):
                    if row["method"] == method:
                        side[row["pair"]] = found[row["run"]][line["endpoint"]]
        effects = np.array([pairs[0][pair] - pairs[1][pair] for pair in pairs[0].keys() & pairs[1].keys()])
        effects = -effects if line["endpoint"] == "D_MCI" else effects
        mean, (one, two) = effects.mean(), stats.t.ppf([0.95, 0.975], len(effects) - 1) * stats.sem(effects)
        again = {"mean": mean, "lower": mean - one, "low": mean - two, "high": mean + two}
        yield from (abs(value - float(line[name])) for name, value in again.items())


if __name__ == "__main__":
    study = Path(sys.argv[1])
    made = list(differences(study, Path(sys.argv[2]) if len(sys.argv) > 2 else study / "runs"))
    print(f"{len(made)} numbers, largest difference {max(made):.3g}")
    sys.exit(not max(made) < 1e-12)
