"""Endpoints of the study `control` update by update, mean over pairs.

    python results/by-update/by_update.py RUNS            (RUNS: the folder of its runs; others may lie there)

The last update stands apart: its newcomers never become old answers, so what it gives them costs nothing yet.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

SHOWN = ("H_cur", "A_TN", "A_QN")
METHODS = ("cap+guard", "none")


def levels(run: Path) -> dict[tuple[str, int], float]:
    """Endpoint and update: the mean over its sides."""
    found = json.loads((run / "endpoints.json").read_text())["test"]
    cells = defaultdict(list)
    for name in SHOWN:
        for cell in found[name]["cells"]:
            cells[name, cell["update"]].append(cell["value"])
    return {key: fmean(values) for key, values in cells.items()}


def main() -> None:
    runs = Path(sys.argv[1])
    by = defaultdict(list)
    for path in sorted(runs.glob("*/pair-*/*/endpoints.json")):
        stream, method = path.parts[-4].partition("-replay")[0], path.parts[-2]
        if method in METHODS:
            by[stream, method].append(levels(path.parent))
    updates = sorted({update for found in by.values() for _, update in found[0]})
    titles = " | ".join(f"{name} {update}" for name in SHOWN for update in updates)
    lines = [f"{__doc__.partition('.')[0]}; the number behind an endpoint is the update.\n"]
    lines += [f"| stream | method | pairs | {titles} |", "|---" * (3 + len(SHOWN) * len(updates)) + "|"]
    for (stream, method), found in by.items():
        means = (fmean(one[name, update] for one in found) for name in SHOWN for update in updates)
        lines.append(
            f"| {stream} | {method} | {len(found)} | {' | '.join(f'{mean:.4f}' for mean in means)} |"
        )
    (Path(__file__).parent / "control.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
