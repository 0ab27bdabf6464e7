"""Numbers and names, as a person reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from meor.escape import LONGEST, clipped, markup, visible
from meor.methods import METHODS
from meor.methods.calibration_grid import MARGIN
from meor.methods.coefficient import ENOUGH, RECORDS
from meor.study.table import ABSENT, Column, Kind, rounded

MINUS = "−"

BACKBONES = {
    "complex": "ComplEx",
    "distmult": "DistMult",
    "transe": "TransE",
    "transe-l2": "TransE (L2)",
    "rotate": "RotatE",
    "transdot": "TransDot",
}

PLAIN = {
    "H_cur": "old answers among all entities",
    "H_old": "old answers among old entities",
    "D_MCI": "what newcomers cost old answers",
    "A_TN": "answers that are newcomers",
    "A_QN": "queries about newcomers",
}
"""What an endpoint is about, within a sentence."""

RULES = {
    "balance": (
        "the coefficient at which host and penalty pull equally hard on newcomers, by their gradients over "
        f"up to {RECORDS:,} records of the first update with at least {ENOUGH} active ones; no rank is "
        "looked at. It is our reading of a rule for which the paper gives no formula."
    ),
    "validated": (
        "the multiple of the balanced coefficient with the highest H_cur on validation facts of other pairs, "
        f"among those whose A_TN there is no more than {MARGIN:.3f} below that of the host alone."
    ),
}
PRESETS = {
    "paper": "the published setting: one pass of refinement at a rate of 1e-4; newcomers hardly move.",
    "practical": (
        "the same model and losses, refined until newcomers are learned; its levels are not comparable with "
        "the published ones."
    ),
}

_SYMBOL = re.compile(r"(?<![\w])(Δ?[HDA])_(cur|old|MCI|TN|QN)(?![\w])")
_PLACE = re.compile(r"(?<![\w.~])(?:[A-Za-z]:|~)?(?:[/\\][^\s/\\,:;`'\"()]+){2,}")


def symbols(text: str) -> Markup:
    """Escaped text with H_cur and its kin set with a subscript."""
    return Markup(_SYMBOL.sub(r"<i>\1</i><sub>\2</sub>", str(markup(text.replace(" %", "\u00a0%")))))  # noqa: S704 escaped first


def svg_symbols(text: str) -> Markup:
    """The same inside a drawing."""
    lowered = r'\1<tspan class="sub" dy="3">\2</tspan><tspan dy="-3">&#8203;</tspan>'
    return Markup(_SYMBOL.sub(lowered, str(markup(text))))  # noqa: S704 escaped first


def method_name(method: str) -> str:
    return METHODS[method].brief if method in METHODS else method


def stream_name(stream: str) -> str:
    """A registered name, or the last part of a path."""
    return stream.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def shown_name(stream: str) -> str:
    """The same for a title: it may be as long as a file system allows."""
    return clipped(visible(stream_name(stream)), LONGEST)


def backbone_name(backbone: str) -> str:
    return BACKBONES.get(backbone, backbone)


def coefficient_name(rule: str) -> str:
    """What a coefficient rule gives."""
    known = {"balance": "the balanced coefficient", "validated": "the validated coefficient"}
    return known.get(rule, f"the coefficient {rule}")


_SPELLED = {each.label: each.spelled for each in METHODS.values() if each.spelled and not each.capped}
_ABBREVIATION = re.compile(rf"(?<![\w-])({'|'.join(_SPELLED)})(?![\w-])")


def named(endpoint: str, mark: str = "") -> str:
    """An endpoint in words, with its symbol."""
    return f"{PLAIN[endpoint]} ({endpoint}{mark})"


def spelled_out(texts: Iterable[str]) -> list[str]:
    """The same texts; the abbreviation of a method is followed by its words where it first stands."""
    said: set[str] = set()

    def once(found: re.Match[str]) -> str:
        name = found[0]
        if name in said:
            return name
        said.add(name)
        return f"{name} ({_SPELLED[name]})"

    return [_ABBREVIATION.sub(once, text) for text in texts]


def number(value: float | None, places: int = 4) -> str:
    """Four places, a true minus sign; what does not exist is --."""
    return ABSENT if value is None else _typeset(rounded(value, "level", places))


def signed(value: float | None, places: int = 4) -> str:
    text = number(value, places)
    return f"+{text}" if value is not None and value > 0 and float(text) else text


def _typeset(text: str) -> str:
    return text.replace("-", MINUS)


def short(value: float) -> str:
    """An axis label or a coefficient: three significant digits, no trailing zeros."""
    return _typeset(rounded(value, "coefficient"))


def interval(low: float, high: float, places: int = 4) -> str:
    return f"[{number(low, places)}, {number(high, places)}]"


def share(value: float | None) -> str:
    """A percentage: one place below 10 %."""
    if value is None:
        return ABSENT
    percent = 100 * value
    places = 1 if 0 < percent < 9.95 else 0
    return f"{percent:.{places}f}\u00a0%"


def shown(value: float, column: Column) -> str:
    """A number of a table, as its column wants it."""
    by_kind: dict[Kind, Callable[[float], str]] = {
        "count": lambda size: f"{size:,}",
        "level": lambda level: number(level, column.places),
        "effect": signed,
        "bound": signed,
        "offset": lambda offset: signed(offset, 3),
        "share": share,
    }
    return by_kind.get(column.kind, short)(value)


def count(value: int) -> str:
    return f"{value:,}"


def plural(value: int, one: str, many: str | None = None) -> str:
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def listed(words: Sequence[str], limit: int | None = None) -> str:
    """a, b and c; with a limit: a, b and 5 more."""
    chosen = list(words)
    if limit is not None and len(chosen) > limit:
        chosen = [*chosen[:limit], f"{count(len(chosen) - limit)} more"]
    if len(chosen) < 2:
        return "".join(chosen)
    return f"{', '.join(chosen[:-1])} and {chosen[-1]}"


def sentence(text: str) -> str:
    """With a capital at its start; symbols within keep theirs."""
    return f"{text[0].upper()}{text[1:]}"


def query(head: str, relation: str, tail: str, *, head_missing: bool) -> str:
    """A query, with ? in place of its answer."""
    return f"?  {relation}  {tail}" if head_missing else f"{head}  {relation}  ?"


def without_places(text: str) -> str:
    """An error's sentence with the last part of each path: a report names no place of this machine."""
    return _PLACE.sub(lambda found: re.split(r"[/\\]", found[0])[-1], text)


def clipped_path(label: str, width: int) -> str:
    """A label that may be a path, such as Freebase's relations: its end says most."""
    if len(label) <= width or "/" not in label:
        return clipped(label, width)
    kept = label[-(width - 1) :]
    return f"…{kept[kept.find('/') :]}" if "/" in kept else f"…{kept}"
