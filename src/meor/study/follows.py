"""What a cell takes from other runs of its pair. Everything else is trained from the pair's base alone."""

from __future__ import annotations

from dataclasses import dataclass

from meor.methods import METHODS, needs_coefficient
from meor.study.cells import StudyCell, source_of
from meor.study.curve import LENGTH
from meor.study.plan import PAIR, Study


@dataclass(frozen=True, slots=True)
class Follows:
    """The cells that another one waits for, by what it takes from each."""

    made_from: StudyCell | None = None  # its run is scaled or transformed, and nothing is trained
    balanced_by: StudyCell | None = None  # whose gradients say what the coefficient is
    as_long_as: StudyCell | None = None  # whose steps are taken, `times` as many
    times: float = 1.0
    starts_from: StudyCell | None = None  # whose updates are its own until the penalty begins

    @property
    def cells(self) -> tuple[StudyCell, ...]:
        found = (self.made_from, self.as_long_as, self.balanced_by, self.starts_from)
        return tuple(dict.fromkeys(cell for cell in found if cell is not None))


def follows(plan: Study, cell: StudyCell) -> Follows:
    """A cell of a curve is trained by itself unless the curve is one of lengths or of multiples."""
    if (source := source_of(plan, cell)) is not None:
        return Follows(made_from=source)
    curve = plan.curves.get(cell.curve or "")
    if curve is not None and curve.along == LENGTH:
        assert cell.at is not None  # noqa: S101  (it stands on a curve)
        return Follows(as_long_as=cell.host_alone, times=cell.at)
    weighed = cell.alone if needs_coefficient(cell.method) and cell.coefficient is None else None
    if cell == cell.host_alone or (curve is not None and cell.multiple is None):
        return Follows(balanced_by=weighed)
    # A host with a stopping rule of its own is not trained for as long as another run.
    stops = bool(cell.config(plan).refine.validate_steps)
    # A coefficient of its own acts from the first update on.
    by_itself = cell == cell.alone or METHODS[cell.method].coefficient is not None
    return Follows(
        balanced_by=weighed,
        as_long_as=cell.host_alone if plan.schedule == PAIR and stops else None,
        starts_from=None if by_itself else cell.alone,
    )
