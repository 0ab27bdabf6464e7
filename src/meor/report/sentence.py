"""What a study found, in a few sentences: never more than its bounds say."""

from __future__ import annotations

from collections.abc import Sequence

from meor.methods import NONE
from meor.methods.calibration_grid import MARGIN
from meor.report.study_data import Setting, StudyData
from meor.report.words import (
    backbone_name,
    bound,
    coefficient_name,
    effect,
    listed,
    method_name,
    number,
    plural,
    shown_name,
)
from meor.study.effects import PRESERVED, Effect, PairedComparison
from meor.study.frontier import families, verdicts


def sentence(data: StudyData) -> str:
    against = [(setting, each) for setting in data.settings if (each := _against_host(setting)) is not None]
    if not against:
        told = plural(len(data.rows), "run is there", "runs are there")
        return f"{told}, but no two methods share enough pairs to be compared."
    if data.groups > 1:
        return _over_settings([each for _, each in against])
    several = len(against) > 1
    rules = [_about(setting, each, several, at == 0) for at, (setting, each) in enumerate(against)]
    return "\n".join([*rules, *_along_the_curves(data)])


def _against_host(setting: Setting) -> PairedComparison | None:
    found = (each for each in setting.comparisons if each.comparator == NONE and "H_cur" in each.effects)
    return next(found, None)


def _about(setting: Setting, against: PairedComparison, several: bool, first: bool) -> str:
    """One rule: MEOR against the host alone, what it preserves, and where the others stand."""
    gain = against["H_cur"]
    if gain.wins == gain.losses == 0:
        return _the_same(setting, against, several)
    verb = "raises" if gain.improved else "lowers" if gain.worsened else "does not clearly change"
    if first:
        start = f"{_where(setting, several)}, {method_name(against.method)} {verb}"
        start += f" the rank of old facts among all entities over {plural(len(against.pairs), 'pair')}"
    else:
        start = f"With {coefficient_name(setting.rule)} it {verb} that rank"
    told = f"{start}: H_cur {effect(gain.mean)} against the host alone, "
    told += f"one-sided 95 % lower bound {bound(gain.lower)}"
    told += _cost(against.effects.get("D_MCI"))
    told += f". {_preserved(against)}{_queries_fall(against.effects.get('A_QN'))}"
    others = [each for each in setting.comparisons if each is not against and "H_cur" in each.effects]
    if not others:
        return told
    return f"{told} {_stands('On H_cur', [(each.comparator, each['H_cur']) for each in others])}"


def _the_same(setting: Setting, against: PairedComparison, several: bool) -> str:
    """An exact tie is another thing than an effect that is not clear."""
    why = "no record of its penalty was active" if against.active_share == 0 else "H_cur is the same"
    pairs = plural(len(against.pairs), "pair")
    who = f"{_where(setting, several)}, {method_name(against.method)}"
    return f"{who} equals the host alone to the last digit in {pairs}: {why}."


def _where(setting: Setting, several: bool) -> str:
    place = f"On {shown_name(setting.group.stream)} with {backbone_name(setting.group.backbone)}"
    return f"{place} and {coefficient_name(setting.rule)}" if several else place


def _cost(cut: Effect | None) -> str:
    if cut is None:
        return ""
    if not (cut.improved or cut.worsened):
        return "; what newcomers cost is not clearly changed"
    return f"; newcomers cost {effect(abs(cut.mean), plus=False)} {'less' if cut.improved else 'more'}"


def _queries_fall(found: Effect | None) -> str:
    """A_QN has no margin to be preserved within, so a clear loss is said here or nowhere."""
    if found is None or not found.worsened:
        return ""
    return f" A_QN, queries about a newcomer, falls by {effect(abs(found.mean), plus=False)}."


def _over_settings(found: Sequence[PairedComparison]) -> str:
    """Many settings with nothing to average over: how many of them went which way."""
    size, name = len(found), method_name(found[0].method)
    gains = [each["H_cur"] for each in found]
    up = sum(gain.improved for gain in gains)
    down = sum(gain.worsened for gain in gains)
    same = sum(gain.wins == gain.losses == 0 for gain in gains)
    told = f"Of {plural(size, 'setting')}, {name} against the host alone clearly raises H_cur in {up}"
    told += f" and lowers it in {down}"
    told += f"; in {same} it equals the host alone in every pair" if same else ""
    kept = [
        f"{name} in {sum(each[name].preserved for each in having)} of {len(having)}"
        for name in PRESERVED
        if (having := [each for each in found if name in each.effects])
    ]
    told += f". Preserved within {number(MARGIN, 3)}: {listed(kept)}." if kept else "."
    asked = [each["A_QN"] for each in found if "A_QN" in each.effects]
    fallen = sum(each.worsened for each in asked)
    if fallen:
        told += f" A_QN, queries about a newcomer, clearly falls in {fallen} of {len(asked)}."
    return told


def _preserved(against: PairedComparison) -> str:
    found = [name for name in PRESERVED if name in against.effects]
    held = [f"{name}{against[name].mark}" for name in found if against[name].preserved]
    broken = [f"{name}{against[name].mark}" for name in found if not against[name].preserved]
    within = f"preserved within {number(MARGIN, 3)}"
    if not broken:
        return f"{listed(held)} {_are(held)} {within}." if held else ""
    kept = f"{listed(held)} {_are(held)} {within}, but " if held else ""
    return f"{kept}{listed(broken)} {_are(broken)} not shown to be {'so' if held else within}."


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _stands(lead: str, found: Sequence[tuple[str, Effect]]) -> str:
    """Among which of the others a method stands, each judged by its own bounds."""
    better = [method_name(other) for other, each in found if each.improved]
    worse = [method_name(other) for other, each in found if each.worsened]
    rest = [method_name(other) for other, each in found if not (each.improved or each.worsened)]
    told = [f"above {listed(better)}"] if better else []
    told += [f"below {listed(worse)}"] if worse else []
    told += [f"not told apart from {listed(rest)}"] if rest else []
    return f"{lead} it is {listed(told)}."


def _along_the_curves(data: StudyData) -> list[str]:
    """Where a study has curves: who is ahead of whom, whatever the coefficient."""
    if data.plan is None or not data.plan.curves:
        return []
    found = verdicts(data.rows, data.settings[0].group, data.plan.curves)
    ahead = [(each.ours, each.theirs) for each in found if each.word == "ahead"]
    ahead += [(each.theirs, each.ours) for each in found if each.word == "behind"]
    leaders = [name for name in families(data.plan.curves) if name not in {behind for _, behind in ahead}]
    beaten = {name: [behind for best, behind in ahead if best == name] for name in leaders}
    told = [f"{name} (ahead of {listed(behind)})" for name, behind in beaten.items() if behind]
    return [f"At equal A_TN, on H_cur, nothing is ahead of {listed(told)}."] if told else []
