"""Dates as they come in files, turned into numbers that sort by time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from meor.stream.records import Origin, shown

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_ISO = re.compile(
    r"(?P<month>[0-9]{4}-[0-9]{2})"
    r"(?P<day>-[0-9]{2}"
    r"(?P<time>[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXPECTED = "Write whole numbers (years, days, seconds) or ISO 8601: 2024-05, 2024-05-31, 2024-05-31T12:00:00"


class DateColumn:
    """The dates of one file: all of one form, since 2024-05 is neither before nor after 2024-05-31."""

    __slots__ = ("_form", "_known", "_origin")

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._form: str | None = None
        self._known: dict[str, int] = {}

    def key(self, cell: str, number: int) -> int:
        """Microseconds since 1970, or the whole number itself."""
        known = self._known.get(cell)
        if known is not None:
            return known
        parsed = _parse(cell.strip())
        if parsed is None:
            raise self._origin.error(f"{shown(cell)} is not a date", _EXPECTED, number)
        form, key = parsed
        if self._form not in (None, form):
            problem = f"{shown(cell)} is a {form}, the dates before it are each a {self._form}"
            raise self._origin.error(problem, "Write all dates of a file in one form", number)
        self._form = form
        self._known[cell] = key
        return key


def _parse(text: str) -> tuple[str, int] | None:
    if _INTEGER.fullmatch(text):
        return "whole number", int(text)
    matched = _ISO.fullmatch(text)
    if matched is None:
        return None
    try:
        moment = datetime.fromisoformat(text if matched["day"] else f"{text}-01")
    except ValueError:
        return None
    form = "time" if matched["time"] else "day" if matched["day"] else "month"
    if matched["zone"]:
        form = "time with a zone"
    else:
        moment = moment.replace(tzinfo=UTC)
    return form, (moment - _EPOCH) // timedelta(microseconds=1)
