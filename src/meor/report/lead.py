"""What a study was asked and what it found, in plain sentences: never more than its bounds say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meor.evaluation.displacement import Loss
from meor.methods import NONE
from meor.report.displaced import Displacement, Label
from meor.report.evidence import Evidence
from meor.report.field_section import overstated
from meor.report.frontier import answers
from meor.report.page import Said
from meor.report.study_data import Setting, StudyData
from meor.report.words import (
    coefficient_name,
    count,
    listed,
    method_name,
    named,
    number,
    plural,
    sentence,
    shown_name,
    signed,
    spelled_out,
)
from meor.study.effects import MARGIN, PRESERVED, Effect, PairedComparison

COSTS = ("H_old", "A_TN", "A_QN")
WITHIN = f"within {number(MARGIN, 3)} of the host alone"
MENTIONED = 3
"""Newcomers that the lead names."""


def title(data: StudyData) -> str:
    """What was asked, and of how many pairs."""
    streams = listed(list(dict.fromkeys(shown_name(setting.group.stream) for setting in data.settings)))
    pairs = plural(max(len(level.pairs) for s in data.settings for level in s.levels), "pair").replace(
        " ", "\xa0"
    )
    if data.plan.curves:
        return f"What keeps old answers on {streams} while newcomers are learned? {pairs}"
    if data.head is None:
        return f"What did newcomers cost old answers on {streams}? {pairs}"
    return f"Does {method_name(data.head)} keep old answers on {streams}? {pairs}"


Facts = Mapping[str, Sequence[Loss]]
"""Those of snapshot 0 in the setting that is looked at closely, by method, mean over pairs."""


def lead(data: StudyData, facts: Facts, told: Evidence | None) -> tuple[Said, ...]:
    place = f" on {shown_name(data.main.group.stream)}" if data.groups > 1 else ""
    said = what_was_lost(facts.get(NONE, ()), f"This is the host alone{place}, the mean over pairs.", told)
    said = said or _lost_by_endpoints(data.main)
    compared = [
        (setting, each) for setting in data.settings if (each := setting.against(data.head)) is not None
    ]
    if not compared:
        runs = plural(len(data.rows), "run is there", "runs are there")
        nothing = f"{runs}, but no two methods share enough pairs to be compared."
        said.append(Said("What control changed", nothing))
    elif data.groups > 1:
        said += _over_settings([each for _, each in compared])
    else:
        *others, (setting, main) = compared
        start = f"With {coefficient_name(setting.rule)}, " if others else ""
        briefly = " ".join(_briefly(*each) for each in others)
        changed = f"{start}{_changed(setting, main, facts)} {briefly}".strip()
        said += [Said("What control changed", changed), Said("What it cost", sentence(start + _cost(main)))]
    said += [*answers(data), *overstated(data), *_ends_of_grids(data)]
    texts = spelled_out(each.answer for each in said)
    return tuple(Said(each.question, text) for each, text in zip(said, texts, strict=True))


def _lost_by_endpoints(setting: Setting) -> list[Said]:
    """Where no run folder is here to follow the same facts: means over all old facts and updates."""
    level = next((each for each in setting.levels if each.method == NONE), setting.levels[0])
    if not {"H_cur", "H_old"} <= set(level.levels):
        return []
    old, cur = (number(level.levels[name].mean, 3) for name in ("H_old", "H_cur"))
    told = (
        f"Over all updates, old answers have a mean reciprocal rank of {old} among the entities known before "
        f"(H_old) and of {cur} among all (H_cur): the difference went to newcomers. "
        f"{method_name(level.method)}, mean of {plural(len(level.pairs), 'pair')} on "
        f"{shown_name(setting.group.stream)}."
    )
    return [Said("What was lost", told)]


def _changed(setting: Setting, against: PairedComparison, facts: Facts) -> str:
    """The head method against the host alone, and who of the others gains most."""
    gain, who = against["H_cur"], method_name(against.method)
    pairs = plural(len(against.pairs), "pair")
    if gain.wins == gain.losses == 0:
        why = "no record of its penalty was active" if against.active_share == 0 else "H_cur is the same"
        return f"{who} equals the host alone to the last digit in {pairs}: {why}."
    told = [
        f"{who} {_verb(gain)} {named('H_cur')} against the host alone: {signed(gain.mean)}, one-sided 95 % "
        f"lower bound {signed(gain.lower)}, {pairs}.",
        _newcomers_cost(setting, against),
    ]
    ends = [facts[name][-1].cur for name in (against.method, NONE) if name in facts]
    if len(ends) == 2 and (gain.improved or gain.worsened):
        told.append("The same facts end at {} instead of {}.".format(*(number(end, 3) for end in ends)))
    return " ".join(filter(None, (*told, _others(setting, against))))


def _briefly(setting: Setting, against: PairedComparison) -> str:
    """Another rule: means and lower bounds."""
    found = [
        f"{name} {signed(against[name].mean)} (at least {signed(against[name].lower)})"
        for name in ("H_cur", "A_TN", "A_QN")
        if name in against.effects
    ]
    return f"With {coefficient_name(setting.rule)}: {', '.join(found)}."


def _verb(gain: Effect) -> str:
    if gain.is_none:
        return "makes no difference to"
    return "raises" if gain.improved else "lowers" if gain.worsened else "does not clearly change"


def _newcomers_cost(setting: Setting, against: PairedComparison) -> str:
    cut = against.effects.get("D_MCI")
    levels = {each.method: each.levels.get("D_MCI") for each in setting.levels}
    before, after = levels.get(NONE), levels.get(against.method)
    if cut is None or before is None or after is None:
        return ""
    if not (cut.improved or cut.worsened):
        return "What newcomers cost (D_MCI) is not clearly changed."
    verb = "falls" if cut.improved else "rises"
    return f"What newcomers cost (D_MCI) {verb} from {number(before.mean)} to {number(after.mean)}."


def _others(setting: Setting, against: PairedComparison) -> str:
    """The best of the other methods against the host alone, if any is clearly better than it."""
    gains = {each.method: each["H_cur"] for each in setting.against_host if "H_cur" in each.effects}
    del gains[against.method]
    better = [name for name, gain in gains.items() if gain.improved]
    if not gains:
        return ""
    if not better:
        return f"None of the {len(gains)} other methods clearly raises it."
    best = max(better, key=lambda name: gains[name].mean)
    ranked = f"{signed(gains[best].mean)}, at least {signed(gains[best].lower)}"
    return f"Of {plural(len(gains), 'other method')}, {method_name(best)} gains most: {ranked}."


def _cost(against: PairedComparison) -> str:
    """What else fell, or may have fallen by more than the margin."""
    known = {name: against[name] for name in COSTS if name in against.effects}
    fell = [
        f"{named(name, each.mark)} fall by {number(-each.mean)}"
        for name, each in known.items()
        if each.worsened
    ]
    unsure = [
        f"{named(name, each.mark)}, bound {signed(each.lower)}"
        for name, each in known.items()
        if not (each.worsened or each.preserved)
    ]
    kept = [named(name, each.mark) for name, each in known.items() if each.preserved and not each.worsened]
    told = [f"a trade: {'; '.join(fell)}."] if fell else []
    if unsure:
        told.append(f"a loss of more than {number(MARGIN, 3)} cannot be excluded for {listed(unsure)}.")
    if kept:
        start = "" if told else "nothing else falls: "
        told.append(f"{start}{listed(kept)} stay {WITHIN} or above it (one-sided 95 % bounds).")
    first, *rest = told or ["it has no other endpoint to fall."]
    return " ".join([first, *map(sentence, rest)])


def _over_settings(found: Sequence[PairedComparison]) -> list[Said]:
    """Many settings with nothing to average over: how many of them went which way."""
    size, who = len(found), method_name(found[0].method)
    gains = [each["H_cur"] for each in found]
    up, down = sum(gain.improved for gain in gains), sum(gain.worsened for gain in gains)
    same = sum(gain.wins == gain.losses == 0 for gain in gains)
    changed = (
        f"Of {plural(size, 'setting')}, {who} clearly raises {named('H_cur')} against the host alone in "
    )
    changed += f"{up} and lowers it in {down}"
    changed += f"; in {same} it equals the host alone in every pair." if same else "."
    kept = [
        f"{named(name)} in {sum(each[name].preserved for each in having)} of {len(having)}"
        for name in PRESERVED
        if (having := [each for each in found if name in each.effects])
    ]
    cost = f"Preserved within {number(MARGIN, 3)}: {listed(kept)}." if kept else ""
    asked = [each["A_QN"] for each in found if "A_QN" in each.effects]
    fallen = sum(each.worsened for each in asked)
    if fallen:
        cost += f" {sentence(named('A_QN'))} clearly fall in {fallen} of {len(asked)}."
    return [Said("What control changed", changed), *([Said("What it cost", cost)] if cost else [])]


def _ends_of_grids(data: StudyData) -> list[Said]:
    remarks = [f"{remark}." for each in data.choices if (remark := each.remark)]
    return [Said("At the end of a grid", " ".join(remarks))] if remarks else []


def what_was_lost(losses: Sequence[Loss], whose: str, told: Evidence | None) -> list[Said]:
    """Of the same facts, those of snapshot 0; `whose` names the runs that were looked at."""
    if not losses:
        return []
    start, end = losses[0].old, losses[-1].cur
    lost = start - end
    verb = "fall" if lost > 0 else "rise"
    what = (
        f"The same facts, those of snapshot 0, {verb} from {number(start, 3)} to {number(end, 3)} while "
        f"{plural(len(losses), 'update admits', 'updates admit')} newcomers. That is their mean reciprocal "
        f"rank among all entities: 1 if every answer came first. {whose}"
    )
    said = [Said("What was lost", what)]
    if lost >= 0.0005:
        said.append(Said("When", _when(losses, lost)))
    if told is not None and told.displacement is not None and told.displacement.culprits:
        said.append(Said("To whom", _to_whom(told.displacement, told.entity)))
    return said


def _when(losses: Sequence[Loss], lost: float) -> str:
    before = [losses[0].old, *(loss.cur for loss in losses[:-1])]
    taken = {loss.update: level - loss.cur for loss, level in zip(losses, before, strict=True)}
    most = max(taken, key=lambda update: taken[update])
    by_new = sum(loss.old - loss.cur for loss in losses)
    moved = lost - by_new
    told = f"Update {most} took most: {number(taken[most], 3)} of {number(lost, 3)}."
    if len(losses) == 1:
        told = f"At update {most}, the only one."
    if abs(moved) < 0.0005:
        return f"{told} All of it went to newcomers that came to stand before the answer."
    return (
        f"{told} Newcomers that came to stand before the answer account for {number(by_new, 3)}; the order "
        f"among old entities for {number(moved, 3)}."
    )


def _to_whom(found: Displacement, entity: Label) -> str:
    """Those that cost most, by label."""
    first, *others = [each.newcomer for each in found.culprits[:MENTIONED]]
    answers = plural(first.displaced, "old answer")
    most = f"{entity(first.id)} (update {first.update}), which now stands before {answers}"
    rest = [f"{entity(each.id)} (update {each.update})" for each in others]
    after = f"; then {listed(rest)}" if rest else ""
    passed = f"{count(found.total.displaced)} of {plural(found.total.queries, 'ranked old answer')}"
    return f"The newcomer that cost most is {most}{after}. In all, {passed} have a newcomer before them."
