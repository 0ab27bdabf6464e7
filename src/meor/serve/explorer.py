"""Pages for a browser: made here, whole, with every label escaped; scripts only add comfort."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from fastapi.responses import Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from meor.errors import MeorError, StoreError
from meor.escape import markup, visible
from meor.serve.api import explanation, search
from meor.serve.schemas import LONGEST_LABEL
from meor.serve.state import Served
from meor.storage.json_file import read_json
from meor.store.answers import Answers, id_of
from meor.store.answers import Query as Asked
from meor.store.explain import placed
from meor.store.layout import VERDICT
from meor.store.version import Version

Text = Annotated[str, Query(max_length=LONGEST_LABEL)]
SHOWN_FACTS, SHOWN_ANSWERS, SHOWN_NEWCOMERS = 60, 15, 30
FILES = {"style.css": "text/css", "explorer.js": "text/javascript"}


@cache
def _pages() -> Environment:
    pages = Environment(
        loader=PackageLoader("meor.serve"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["label"] = markup
    pages.globals["link"] = lambda path, **parts: f"{path}?{urlencode(parts, errors='replace')}"
    return pages


def _page(name: str, status: int = 200, **parts: Any) -> Response:
    text = _pages().get_template(name).render(**parts)
    return Response(text.encode(errors="replace"), status, media_type="text/html; charset=utf-8")


def explorer(served: Served) -> APIRouter:
    pages, made = APIRouter(include_in_schema=False), Explorer(served)
    for path, page in (
        ("/", made.start),
        ("/entity", made.entity),
        ("/answers", made.answers),
        ("/why", made.why),
        ("/history", made.history),
        ("/verdict/{line}", made.verdict),
        ("/static/{name}", static),
    ):
        pages.add_api_route(path, page, response_model=None)
    return pages


def static(name: str) -> Response:
    if name not in FILES:
        return Response("not found", 404, media_type="text/plain")
    data = resources.files("meor.serve").joinpath("templates", name).read_bytes()
    return Response(data, media_type=FILES[name])


class Explorer:
    """One method per page."""

    def __init__(self, served: Served) -> None:
        self.served = served

    def _shown(self, make: Callable[[Answers], tuple[str, dict[str, Any]]]) -> Response:
        """A page, or a page that says why there is none."""
        answers = self.served.current()
        try:
            name, parts = make(answers)
        except MeorError as error:
            return _page("problem.html", 404, version=answers.name, problem=visible(str(error)))
        return _page(name, version=answers.name, **parts)

    def start(self, q: Text = "") -> Response:
        def make(answers: Answers) -> tuple[str, dict[str, Any]]:
            found = search(answers, q, 50) if q.strip() else []
            sizes = answers.n_current, len(answers.stream.relations), answers.n_current - answers.n_old
            newest = answers.stream.entities.labels[answers.n_old : answers.n_current][:SHOWN_NEWCOMERS]
            return "start.html", {"q": q, "found": found, "sizes": sizes, "newest": newest}

        return self._shown(make)

    def entity(self, label: Text) -> Response:
        return self._shown(lambda answers: ("entity.html", _entity(self.served, answers, label)))

    def answers(self, anchor: Text, relation: Text, side: Text = "tail") -> Response:
        def make(answers: Answers) -> tuple[str, dict[str, Any]]:
            query = Asked.of("?", relation, anchor) if side == "head" else Asked.of(anchor, relation)
            both = {
                "old": answers.top_each([query], SHOWN_ANSWERS, universe="old")[0],
                "current": answers.top_each([query], SHOWN_ANSWERS)[0],
            }
            return "answers.html", {"query": query, "both": both}

        return self._shown(make)

    def why(self, head: Text, relation: Text, tail: Text, answer: Text) -> Response:
        def make(_: Answers) -> tuple[str, dict[str, Any]]:
            told = explanation(self.served, Asked.of(head, relation, tail), answer, None, None)
            return "why.html", {"told": told}

        return self._shown(make)

    def history(self) -> Response:
        def make(_: Answers) -> tuple[str, dict[str, Any]]:
            entries = list(enumerate(self.served.store.log(), 1))[::-1]
            return "history.html", {"entries": entries, "current": self.served.store.current()}

        return self._shown(make)

    def verdict(self, line: int) -> Response:
        return self._shown(lambda _: ("verdict.html", {"line": line, "told": _verdict(self.served, line)}))


def _verdict(served: Served, line: int) -> dict[str, Any]:
    entries = served.store.log()
    folder = entries[line - 1].get("verdict") if 1 <= line <= len(entries) else None
    if folder is None:
        raise StoreError(f"line {line} of the log has no verdict.")
    return dict(read_json(served.store.path / folder / VERDICT))


def _entity(served: Served, answers: Answers, label: str) -> dict[str, Any]:
    """An entity: its facts, what may be asked about it, and, of a newcomer, whom it displaced."""
    stream = answers.stream
    id = id_of(stream.entities, label, "entity")
    admitted = stream.entities.admitted_at[id]
    train = stream.prefix(len(stream.snapshots) - 1, ["train"])
    made = _admission_of(served, answers.name, admitted) if admitted else None
    told = made.verdict() if made is not None else {}
    blamed = next((row for row in told.get("blame", ()) if row["newcomer"] == label), None)
    displaced = [row for row in told.get("worst", ()) if label in row["newcomers_ahead"]]
    return {
        "label": label,
        "admitted_at": admitted,
        "is_newcomer": id >= answers.n_old,
        "admitted_by": None if made is None else made.name,
        "facts": placed(stream, train, id)[:SHOWN_FACTS],
        "relations": sorted(stream.relations.labels),
        "blamed": blamed,
        "displaced": displaced,
    }


def _admission_of(served: Served, name: str, update: int) -> Version | None:
    """The version that an update made, among those that the given one grew from."""
    found: str | None = name
    while found is not None:
        version = Version.open(served.store.path, found)
        if version.state()["snapshots"] == update + 1:
            return version if version.parent is not None else None
        found = version.parent
    return None
