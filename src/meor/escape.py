"""Text from someone's file on its way to a reader: one function per destination.

Labels, stream names and paths may hold anything: terminal codes, markup, characters that cannot be seen or
that turn the reading direction. Whatever shows them calls the function of its destination. Files that must
keep them exactly (Parquet, JSON, YAML, the text of a stream) have an encoding of their own.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable

from markupsafe import Markup
from markupsafe import escape as _entities

LONGEST = 80
"""Characters of a label that a line of a terminal or of a table shows."""

# Controls (C0, DEL, C1), soft hyphen, bidirectional and zero-width characters, line and paragraph separators,
# byte order mark, annotation marks, noncharacters, halves of characters, tags. Ranges and not Unicode
# categories: those differ with the version of Python, and would show Arabic number signs as escapes.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)


def is_visible(text: str) -> bool:
    return _UNSEEN.search(text) is None


def visible(text: str) -> str:
    r"""What cannot be seen becomes an escape such as \x1b or \u202e; doing it twice changes nothing."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def clipped(text: str, letters: int) -> str:
    """At most so many characters; the last is an ellipsis where something was left out."""
    return text if len(text) <= letters else f"{text[: max(letters - 1, 1)].rstrip()}…"


def clipped_start(text: str, letters: int) -> str:
    """The same for a path, whose end says most."""
    return text if len(text) <= letters else f"…{text[len(text) - letters + 1 :]}"


def terminal(text: object, letters: int | None = None) -> str:
    """For a terminal: one line without control codes. Give it to rich as `Text`, or [red] would be markup."""
    shown = visible(str(text))
    return shown if letters is None else clipped(shown, letters)


def markup(text: str) -> Markup:
    """For HTML and SVG, as content and as a quoted attribute; every character left is one that XML allows."""
    return text if isinstance(text, Markup) else _entities(visible(text))


_MARKDOWN = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])|[&<>]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_MARKDOWN_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", ":": "&#58;", ".": "&#46;"}


def markdown(text: str) -> str:
    """For a line of Markdown or a cell of its tables: no emphasis, no link, no HTML. H_cur stays as it is."""
    return _MARKDOWN.sub(lambda found: _MARKDOWN_ENTITIES.get(found[0], f"\\{found[0]}"), visible(text))


_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|--")


def csv_cell(value: object) -> object:
    """For the csv module. Numbers, and the -- of one that is missing, stay as they are. A text that a
    spreadsheet would take for a formula gets a quote before it. The < of a tag is written as an escape, for
    whatever page shows the table."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    shown = visible(value).replace("<", r"\x3c")
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "Δ": r"$\Delta$",
    "†": r"$^\dagger$",
}


def latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in visible(text))


def shell(words: Iterable[str]) -> str:
    r"""A command line to copy: words quoted where needed, as $'\x1b' where they hold what cannot be seen."""
    return " ".join(shlex.quote(word) if is_visible(word) else f"$'{_bytes(word)}'" for word in words)


def shell_words(line: str) -> list[str]:
    """The words of a line that `shell` wrote."""
    words: list[str] = []
    # shlex.quote never leaves $'...' between blanks, so one that stands there is ours.
    for index, part in enumerate(re.split(r"(?<!\S)\$'([^']*)'(?!\S)", line)):
        words += [_unbytes(part)] if index % 2 else shlex.split(part)
    return words


def _bytes(word: str) -> str:
    def escaped(char: str) -> str:
        undecoded = "\udc80" <= char <= "\udcff"  # a byte of a file name that is not UTF-8
        raw = char.encode("utf-8", "surrogateescape" if undecoded else "surrogatepass")
        return "".join(rf"\x{byte:02x}" for byte in raw)

    return "".join(char if is_visible(char) and char not in "'\\" else escaped(char) for char in word)


def _unbytes(word: str) -> str:
    raw = re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), word.encode())
    return raw.decode("utf-8", "surrogateescape")


_NAME_BYTES = 120


def file_name(text: str) -> str:
    """Part of the name of a file or folder: letters, digits, dots, hyphens and underscores. A file system
    takes 255 bytes, so a long one is cut and ends in a digest."""
    name = re.sub(r"[^\w.-]+", "-", text)
    if len(name.encode()) <= _NAME_BYTES:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name.encode()[: _NAME_BYTES - 9].decode(errors='ignore')}-{digest}"
