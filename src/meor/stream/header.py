"""Which column holds what: by the names that files commonly use, or as `--columns` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meor.errors import ConfigError
from meor.stream.source import Origin, shown

FACT = ("head", "relation", "tail")
ROLES = (*FACT, "snapshot", "date", "split")
_SHORT = {"h": "head", "r": "relation", "t": "tail"}
# The first row of names that is complete counts: beside head, relation and tail, `source` may be a citation.
_FACT_NAMES = (
    FACT,
    ("subject", "predicate", "object"),
    *(("source", relation, "target") for relation in ("relation", "predicate", "type")),
    ("h", "r", "t"),
)
_DATE_NAMES = ("date", "timestamp", "time")
_SAY = "say which is which: --columns h=COL,r=COL,t=COL"


def named_columns(text: str | None) -> dict[str, str]:
    """What `--columns` says, by role."""
    found: dict[str, str] = {}
    for part in [] if text is None else text.split(","):
        key, _, name = (word.strip() for word in part.partition("="))
        role = _SHORT.get(key.lower(), key.lower())
        if role not in ROLES or not name or role in found:
            problem = f"{shown(part)} in --columns is no role=COLUMN, or names a role twice"
            remedy = f"Write h=COL,r=COL,t=COL; the roles are {', '.join(ROLES)}"
            raise ConfigError(problem, remedy=remedy)
        found[role] = name
    return found


def checked_columns(text: str | None) -> str | None:
    """The same text, if it can be understood."""
    named_columns(text)
    return text


def is_header(cells: Sequence[str], named: Mapping[str, str]) -> bool:
    """Does a row name the three columns of a fact?"""
    names = _normal(cells)
    return all(name.lower() in names for name in _fact_names(names, named).values())


def columns_of(origin: Origin, header: Sequence[str], named: Mapping[str, str]) -> dict[str, int]:
    """The position of each role in a header."""
    names = _normal(header)
    wanted = {**_fact_names(names, named), **named}
    if not {"snapshot", "date"} & named.keys():
        date = next((name for name in _DATE_NAMES if name in names), "date")
        wanted |= {role: name for role, name in (("snapshot", "snapshot"), ("date", date)) if name in names}
    if "split" in names:
        wanted.setdefault("split", "split")
    return {role: _position(origin, header, name, exact=role in named) for role, name in wanted.items()}


def _normal(header: Sequence[str]) -> list[str]:
    return [name.strip().lower() for name in header]


def _fact_names(names: Sequence[str], named: Mapping[str, str]) -> dict[str, str]:
    """Head, relation and tail: as named, else the first names of `_FACT_NAMES` of which most are there."""
    rows = [{**dict(zip(FACT, row, strict=True)), **named} for row in _FACT_NAMES]
    found = [{role: row[role] for role in FACT} for row in rows]
    return max(found, key=lambda row: sum(name.lower() in names for name in row.values()))


def _position(origin: Origin, header: Sequence[str], name: str, *, exact: bool) -> int:
    """The one column of a name, in any case; one that a user named is first looked for as it is written."""
    places = [index for index, cell in enumerate(_normal(header)) if cell == name.lower()]
    if exact:
        places = [index for index in places if header[index].strip() == name] or places
    if not places:
        found = ", ".join(map(shown, header[:8]))
        remedy = f"Let the first row name the columns (head, relation, tail), or {_SAY}"
        raise origin.error(f"no column is called {name} (found {found})", remedy)
    if len(places) > 1:
        raise origin.error(f"two columns are called {name}", f"Rename one, or {_SAY}")
    return places[0]
