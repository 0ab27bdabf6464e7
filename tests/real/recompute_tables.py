"""A study's tables again, from its runs' ranks.parquet alone: python recompute_tables.py STUDY [RUNS]

A run whose folder was not kept counts as its row says; how many have their ranks is told.
"""

import csv
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

ROLE = {"H_cur": "historical", "H_old": "historical", "A_TN": "target_newcomer", "A_QN": "query_newcomer"}
GROUP = ("stream", "host", "backbone", "preset")
study = Path(sys.argv[1])
folder = Path(sys.argv[2]) if len(sys.argv) > 2 else study / "runs"


def named(parts):
    return re.sub(r"[^\w.-]+", "-", "-".join(parts))  # as files are


def endpoints(run):
    cells = {name: [] for name in ROLE}
    for path in run.glob("update-*/ranks.parquet"):
        table = pq.ParquetFile(path).read()
        column = {name: table[name].to_numpy() for name in table.column_names}
        for name, role in ROLE.items():
            for side in ("head", "tail"):
                chosen = (column["split"] == "test") & (column["side"] == side) & (column["role"] == role)
                rank = column["rank_old" if name == "H_old" else "rank_cur"][chosen]
                cells[name].append((1 / rank).mean() if len(rank) else np.nan)
    found = {name: np.mean(values) for name, values in cells.items()}
    return {**found, "D_MCI": found["H_old"] - found["H_cur"]}


def effect(ours, theirs, name):
    found = np.array([ours[pair][name] - theirs[pair][name] for pair in ours.keys() & theirs.keys()])
    mean = -found.mean() if name == "D_MCI" else found.mean()
    one, two = stats.t.ppf([0.95, 0.975], len(found) - 1) * stats.sem(found)
    return {"mean": mean, "lower": mean - one, "LB": mean - one, "low": mean - two, "high": mean + two}


rows, by, made, head = pq.ParquetFile(study / "runs.parquet").read().to_pylist(), {}, [], {}
rules = {"balance", "validated"} | {row["coefficient_rule"] for row in rows} - {"none"}
ranked = [row for row in rows if (folder / row["run"]).is_dir()]
for row in rows:
    told = {name: row[name] for name in (*ROLE, "D_MCI")}
    found, own = endpoints(folder / row["run"]) if row in ranked else told, row["coefficient_rule"]
    made += [(row[name], found[name]) for name in found if row[name] is not None]
    for rule in rules if own == "none" else (own,):
        if rule != "balance" or row["multiple"] in (None, 1.0):
            key = named([*(row[name] for name in GROUP), rule])
            by.setdefault((key, row["method"]), {})[row["pair"]] = found
for line in csv.DictReader((study / "effects.csv").open(encoding="utf-8")):
    key = named(line[name] for name in (*GROUP, "rule"))
    head.setdefault(key, line["method"])
    again = effect(by[key, line["method"]], by[key, line["comparator"]], line["endpoint"])
    made += [(line[name], again[name]) for name in ("mean", "lower", "low", "high")]
for path in (study / "tables").glob("*-*.csv"):
    kind, key = path.stem.split("-", 1)
    for line in csv.DictReader(path.open(encoding="utf-8")):
        label = line.get("Method" if kind == "absolute" else "Comparator", "")
        has_runs = line["source"] == "ours" and not label.startswith("Popularity")
        if kind in ("absolute", "effects", "ablation") and has_runs:
            label = label.replace(" + ", "+").lower().removeprefix("persistent ").replace(" ", "-")
            method = by[key, "none" if label == "host-alone" else label]
            for name, text in line.items():
                symbol, _, part = name.replace("Δ", "").replace(" reduction", "").rpartition(" ")
                if kind == "absolute" and part in (*ROLE, "D_MCI") and text:
                    made.append((text, np.mean([each[part] for each in method.values()])))
                elif part in ("mean", "LB") and text:
                    made.append((text, effect(by[key, head[key]], method, symbol)[part]))
largest = np.max(np.abs([float(written) - again for written, again in made]))
whose = f"{len(ranked)} of {len(rows)} runs have their ranks"
print(f"{len(made)} numbers, largest difference {largest:.3g}; {whose}")
sys.exit(not (ranked and largest < 1e-12))
