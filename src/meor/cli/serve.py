"""`meor serve`: answers over HTTP, and the explorer."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from meor.cli import new_verb
from meor.errors import ConfigError
from meor.escape import terminal
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
    listening = _listen(host, port)
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    print(f"{terminal(store)}: answers at {address} until Ctrl-C", file=sys.stderr, flush=True)
    settings = uvicorn.Config(
        served,  # type: ignore[arg-type]
        log_level="warning",
        limit_concurrency=256,
        timeout_keep_alive=15,
        server_header=False,
    )
    uvicorn.Server(settings).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Bound here and not by uvicorn, so that a port in use is an error of one sentence."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port} ({error.strerror})",
            remedy="Choose another --port or --host",
        ) from None


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
