"""Settings in YAML, from a file or from `--set`: the one place where such text is parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from meor.errors import ConfigError
from meor.escape import is_visible

LARGEST = 64 << 10
"""Bytes of the largest settings file: a real one has a few kB, and parsing time is not linear."""

DEEPEST = 16
_SIMPLER = "Write a number, a word or a list [a, b]"
_OPENING = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_CLOSING = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The mapping a YAML file holds and the line of each dotted key."""
    text = _text(path)
    try:
        _refuse_bombs(text, path)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[str, int] = {}
        if node is not None:
            _collect(node, "", lines, path)
        content = _loaded(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ConfigError(
            f"not valid YAML: {error.problem}",
            remedy="Correct it there",
            path=path,
            line=None if mark is None else mark.line + 1,
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"not valid YAML: {first}", remedy="Write plain `key: value` lines", path=path
        ) from None
    if content is None:
        return {}, {}
    if not isinstance(content, dict):
        raise ConfigError("not a mapping", remedy="Write `key: value` lines", path=path, line=1)
    return content, lines


def to_yaml(content: dict[str, Any]) -> str:
    """Reading it back gives the same; whoever looks at the file sees every character of a path."""
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    # YAML leaves marks of the reading direction as they are, and does not mind escapes in their place.
    seen = is_visible(text.replace("\n", ""))
    return text if seen else yaml.safe_dump(content, sort_keys=False, allow_unicode=False)


def read_value(text: str, option: str) -> Any:
    """The value in `--set KEY=VALUE`, under the rules of files; `option` names it in an error."""
    if len(text.encode(errors="surrogatepass")) > LARGEST:
        raise ConfigError(f"the value of {option} is larger than 64 KiB", remedy=_SIMPLER)
    try:
        _refuse_bombs(text, None, option)
        return _loaded(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"the value of {option} cannot be read", remedy=_SIMPLER) from None


def _loaded(text: str) -> Any:
    """Refuse numbers of base 60 (1:30) that are too long for Python to print in a message."""
    content = yaml.safe_load(text)
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, int) and value.bit_length() > 64:
            raise ValueError("a whole number of more than 64 bits")
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list | tuple | set):
            left += value
    return content


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot be read ({error.strerror})", remedy="Name a readable YAML file", path=path
        ) from None
    if len(raw) > LARGEST:
        raise ConfigError("larger than 64 KiB", remedy="Name a settings file, not data", path=path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError("not UTF-8 text", remedy="Save it as UTF-8", path=path, line=line) from None


def _refuse_bombs(text: str, path: Path | None, option: str | None = None) -> None:
    # A few aliases can stand for gigabytes, and for a mapping that holds itself; brackets nested without
    # end take the parser quadratic time.
    depth = 0
    where = "" if option is None else f" in {option}"
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
        if depth > DEEPEST:
            problem = f"not valid YAML for settings{where}: nested too deep"
            raise ConfigError(problem, remedy="Flatten it", path=path)
        if isinstance(token, yaml.AliasToken):
            raise ConfigError(
                f"the alias *{token.value}{where} is not allowed",
                remedy="Write the value out",
                path=path,
                line=None if path is None else token.start_mark.line + 1,
            )


def _collect(node: yaml.Node, prefix: str, lines: dict[str, int], path: Path) -> None:
    """Note each key's line; YAML itself would let a second `seed:` silently win."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            raise ConfigError("a key is not a word", remedy="Write `name: value`", path=path, line=line)
        dotted = f"{prefix}{key.value}"
        if dotted in lines:
            raise ConfigError(f"{dotted} is given twice", remedy="Keep one of them", path=path, line=line)
        lines[dotted] = line
        _collect(value, f"{dotted}.", lines, path)
