"""A figure of the report, alone: a notebook shows it, and it can be saved as an SVG file."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from meor.escape import markup
from meor.evaluation.endpoints import Content
from meor.report.evidence import losses
from meor.report.figures import LossPanel
from meor.report.html import standalone
from meor.report.page import Figure
from meor.report.parts import loss_figure
from meor.report.words import method_name
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


def loss_drawing(method: str, endpoints: Mapping[str, Mapping[str, Content]]) -> Drawing:
    """What old facts keep and lose at each update, a panel per split."""
    named = {split: method_name(method) if len(endpoints) == 1 else f"{split} facts" for split in endpoints}
    figure = loss_figure([LossPanel(named[split], losses(each)) for split, each in endpoints.items()])
    return Drawing([] if figure is None else [figure])
