"""A section of a study's report: the hosts under the field's protocols, and what these overstate."""

from __future__ import annotations

from meor.report.page import Prose, Said, Section
from meor.report.study_data import StudyData, with_sample
from meor.study.field_table import field_table, overstatements


def field_section(data: StudyData) -> tuple[Section, ...]:
    """Only where runs were ranked as the field ranks them."""
    told = overstated(data)
    if not told:
        return ()
    places = dict.fromkeys((each.group.stream, each.group.preset, each.rule) for each in data.settings)
    tables = (with_sample(field_table(data.plan, data.rows, *place), data.sample) for place in places)
    return (Section("field", "The field’s protocols", (*(Prose(each.answer) for each in told), *tables)),)


def overstated(data: StudyData) -> list[Said]:
    """A sentence per protocol, stream and preset."""
    places = dict.fromkeys((each.group.stream, each.group.preset) for each in data.settings)
    found = (each for place in places for each in overstatements(data.plan, data.rows, *place))
    return [Said("What the field's protocols overstate", each.sentence()) for each in found]
