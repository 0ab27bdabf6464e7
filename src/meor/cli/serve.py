"""`meor serve`: answers over HTTP, and the explorer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from meor.cli import new_verb
from meor.errors import ConfigError
from meor.heap import parse_bytes

app = new_verb()
TOKEN = "MEOR_TOKEN"  # noqa: S105  (the name of a variable)


@app.command()
def command(
    store: Annotated[Path, typer.Argument(help="A store.")],
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8080,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name it answers under; repeatable. [those of --host]")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help=f"File with the token that writing needs. [the variable {TOKEN}]")
    ] = None,
    max_request: Annotated[str, typer.Option(help="The largest request.")] = "8MiB",
) -> None:
    """Serve answers, explanations and the explorer; follow the store when it changes.

    Whoever admits or rolls back must send `Authorization: Bearer TOKEN`; without a token nothing is written.
    """
    try:
        import uvicorn

        from meor.serve.app import LOOPBACK, make_app
    except ImportError as error:
        raise ConfigError(
            f"{error.name} is not installed", remedy='Run `pip install "meor[serve]"`'
        ) from None
    loopback = host in {"127.0.0.1", "localhost", "::1"}
    hosts = frozenset(each.lower() for each in name) if name else LOOPBACK if loopback else None
    served = make_app(store, token=_token(token_file), hosts=hosts, largest=parse_bytes(max_request))
    uvicorn.run(
        served,  # type: ignore[arg-type]
        host=host,
        port=port,
        log_level="warning",
        limit_concurrency=256,
        timeout_keep_alive=15,
        server_header=False,
    )


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get(TOKEN) or None
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{path} cannot be read", remedy="Name a file that holds the token") from None
    if len(text) < 16:
        raise ConfigError(f"the token in {path} is short", remedy="Give at least 16 characters")
    return text
