"""What every request passes before it is read: host, size, time; and the headers of every answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
BODY_SECONDS = 20.0


class Limits:
    """An ASGI application around another."""

    def __init__(self, app: App, *, largest: int, hosts: frozenset[str] | None) -> None:
        self.app, self.largest, self.hosts = app, largest, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        refusal = self._refusal(dict(scope["headers"]))
        if refusal is None:
            await self.app(scope, self._bounded(receive), guarded)
        else:
            await _refuse(guarded, *refusal)

    @property
    def _too_large(self) -> str:
        return f"A request may have {self.largest:,} bytes."

    def _refusal(self, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        if not self._is_ours(headers.get(b"host", b"")):
            return 421, "This server does not answer under that name."
        length = headers.get(b"content-length", b"0")
        fits = length.isdigit() and len(length) < 15 and int(length) <= self.largest
        return None if fits else (413, self._too_large)

    def _is_ours(self, host: bytes) -> bool:
        """A page elsewhere may point its own name at this address; we answer under ours alone."""
        if self.hosts is None:
            return True
        name = host.decode("latin-1").lower()
        return (name if name.endswith("]") else name.rsplit(":", 1)[0]) in self.hosts

    def _bounded(self, receive: Receive) -> Receive:
        left, complete = self.largest, False

        async def bounded() -> Message:
            nonlocal left, complete
            if complete:  # what may still come is that the client has gone: that may take any time
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), BODY_SECONDS)
            except TimeoutError:
                raise HTTPException(408, f"A request must arrive within {BODY_SECONDS:g} seconds.") from None
            complete = not message.get("more_body", False)
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, self._too_large)  # the only kind that readers of a body let pass
            return message

        return bounded


_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


async def _refuse(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
