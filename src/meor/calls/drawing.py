"""A figure of the report, alone: a notebook shows it, and it can be saved as an SVG file."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path

from meor.escape import markup
from meor.evaluation.displacement import same_facts
from meor.evaluation.rank import Ranks
from meor.report.drawn import fall_figure
from meor.report.figures import FallLine
from meor.report.html import standalone
from meor.report.page import Figure
from meor.storage.disk import Disk, commit_file


class Drawing:
    """One or several figures that belong together."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self.figures = tuple(figures)

    @property
    def svg(self) -> tuple[str, ...]:
        """The content of an SVG file for each figure."""
        return tuple(standalone(figure) for figure in self.figures)

    def save(self, path: Path | str) -> list[Path]:
        """Write the figure; a second one gets a number before its ending."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        paths = [path, *(path.with_stem(f"{path.stem}-{at}") for at in range(2, len(self.figures) + 1))]
        for each, content in zip(paths, self.svg, strict=False):
            commit_file(Disk(), each, content.encode())
        return paths[: len(self.figures)]

    def _repr_html_(self) -> str:
        # As images: the style of an SVG file would reach the rest of the page.
        return "".join(
            f'<img alt="{markup(figure.alt)}" style="max-width: 100%" '
            f'src="data:image/svg+xml;base64,{base64.b64encode(content.encode()).decode()}">'
            for figure, content in zip(self.figures, self.svg, strict=True)
        )

    def __repr__(self) -> str:
        return f"Drawing: {'; '.join(figure.title for figure in self.figures) or 'nothing to draw'}"


def fall_drawing(name: str, key: str, ranks: Iterable[Ranks]) -> Drawing:
    """How the facts of snapshot 0 stand after each update; nothing where none of them was ranked."""
    losses = same_facts(ranks)
    return Drawing([fall_figure([FallLine(name, key, losses)])] if losses else [])
