"""Two directives, so that the reference cannot differ from the code: every command, and every public name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import meor
from meor.cli import VERBS, load

_PREFORMATTED = "\b"
_SHAPE = r"(?<=ndarray)\[tuple\[Any, \.\.\.\], dtype\[\w+\]\]"
_LONG_TYPE = rf"TypeAliasForwardRef\('(\w+)'\)|~[\w.]*\.(?=\w)|{_SHAPE}"


class Commands(SphinxDirective):
    """A section per command: its help and its options, as `--help` shows them."""

    def run(self) -> list[nodes.Node]:
        return [section for verb in VERBS for section in _sections(f"meor {verb}", load(verb))]


def _sections(name: str, command: Any) -> Iterator[nodes.section]:
    below = getattr(command, "commands", None)
    if below is not None:
        for word, each in below.items():
            yield from _sections(f"{name} {word}", each)
        return
    context = command.context_class(command, info_name=name)
    section = nodes.section(ids=[nodes.make_id(name)], names=[name])
    section += nodes.title(name, name)
    usage = command.get_usage(context).removeprefix("Usage: ")
    section += nodes.literal_block(usage, usage, language="none")
    section.extend(_help(inspect.cleandoc(command.help or "")))
    records = [record for each in command.params if (record := each.get_help_record(context))]
    section += _options(records)
    yield section


def _help(text: str) -> Iterator[nodes.Node]:
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(_PREFORMATTED):
            content = paragraph.removeprefix(_PREFORMATTED).strip("\n")
            yield nodes.literal_block(content, content, language="none")
        else:
            yield nodes.paragraph("", " ".join(paragraph.split()))


def _options(records: list[tuple[str, str]]) -> nodes.definition_list:
    found = nodes.definition_list()
    for names, text in records:
        term = nodes.term("", "", nodes.literal("", names))
        found += nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", text)))
    return found


class PublicNames(SphinxDirective):
    """Every name of `meor.__all__` with its documentation, under the headings of the package itself."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(_names()), allow_section_headings=True)


def _names() -> Iterator[str]:
    home = re.search(r"^_HOME = \{\n(.*?)^\}", inspect.getsource(meor), re.M | re.S)
    for line in home[1].splitlines():
        if heading := re.fullmatch(r"\s*# (.+)", line):
            yield f"## {heading[1].capitalize()}\n"
        elif found := re.match(r'\s*"(\w+)": "([\w.]+)"', line):
            yield "```{eval-rst}\n" + _directive(*found.groups()) + "\n```\n"


def _directive(name: str, home: str) -> str:
    value = getattr(meor, name)
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, Exception) else "class"
        return f".. auto{kind}:: meor.{name}\n   :members:"
    if callable(value):
        return f".. autofunction:: meor.{name}"
    said = " ".join(ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), ()))
    held = ", ".join(f"`{key}`" for key in value) if isinstance(value, dict) else f"`{value}`"
    return f".. py:data:: meor.{name}\n\n   {said}\n\n   {held}"


def _as_text(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: nothing in them but a name in backticks is markup."""
    for at, line in enumerate(lines):
        parts = re.split(r"(`[^`]+`)", line)
        parts[::2] = [re.sub(r"([*|_\\])", r"\\\1", part) for part in parts[::2]]
        lines[at] = "".join(parts)


def _plain_types(
    app: Sphinx, what: str, name: str, obj: object, options: object, *given: str
) -> tuple[str, ...]:
    """Signatures name types in short."""
    return tuple(each and re.sub(_LONG_TYPE, r"\1", each) for each in given)


def _skip(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    return True if name.startswith("model_") else None  # of the library that checks settings


def _outside_as_text(app: Sphinx, name: str, source: list[str]) -> None:
    """A link out of this folder works in a checkout of the project; in the built book its path is shown."""

    def shown(link: re.Match[str]) -> str:
        return f"`{link[2]}`" if link[1] == link[2] else f"{link[1]} (`{link[2]}`)"

    source[0] = re.sub(r"(?<!!)\[([^\]]*)\]\(\.\./([^)#]+)[^)]*\)", shown, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", _as_text)
    app.connect("autodoc-process-signature", _plain_types)
    app.connect("autodoc-skip-member", _skip)
    app.connect("source-read", _outside_as_text)
    return {"parallel_read_safe": True}
