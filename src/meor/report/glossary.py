"""What a study compares, one line each: the methods, coefficient rules and presets that occur in it."""

from __future__ import annotations

from meor.methods import METHODS, is_penalized
from meor.methods.calibration_grid import MARGIN
from meor.methods.coefficient import ENOUGH, RECORDS
from meor.report.page import Terms
from meor.report.study_data import StudyData
from meor.report.words import number

RULES = {
    "balance": (
        "the coefficient at which host and penalty pull equally hard on newcomers, by their gradients over "
        f"up to {RECORDS:,} records of the first update with at least {ENOUGH} active ones; no rank is "
        "looked at. It is our reading of a rule for which the paper gives no formula."
    ),
    "validated": (
        "the multiple of the balanced coefficient with the highest H_cur on validation facts of other pairs, "
        f"among those whose A_TN there is no more than {number(MARGIN, 3)} below that of the host alone."
    ),
}
PRESETS = {
    "paper": "the published setting: one pass of refinement at a rate of 1e-4; newcomers hardly move.",
    "practical": (
        "the same model and losses, refined until newcomers are learned; its levels are not comparable with "
        "the published ones."
    ),
}


def glossary(data: StudyData) -> Terms:
    methods = {row.method for row in data.rows}
    rules = dict.fromkeys(setting.rule for setting in data.settings)
    presets = dict.fromkeys(setting.group.preset for setting in data.settings)
    lines = [(each.brief, each.sentence) for name, each in METHODS.items() if name in methods]
    if any(is_penalized(name) for name in methods):
        lines += [(f"Rule {rule}", RULES.get(rule, "this coefficient, set by hand.")) for rule in rules]
    lines += [(f"Preset {name}", PRESETS[name]) for name in presets if name in PRESETS]
    return Terms(tuple(lines))


def agreement(data: StudyData) -> str:
    """How far the presets of a study are the paper's setting."""
    told = [
        f"{name} is {PRESETS[name]}"
        for name in dict.fromkeys(s.group.preset for s in data.settings)
        if name in PRESETS
    ]
    return " ".join(f"Preset {each}" for each in told)
