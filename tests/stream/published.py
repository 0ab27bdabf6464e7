"""A small published stream and a server for it, for the tests of registry, fetch and archive."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from meor.stream.registry import Entry, RegisteredFile

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


def _content(snapshot: int, split: str) -> bytes:
    base = 20 * snapshot
    count = {"train": 24, "valid": 3, "test": 4}[split]
    shift = {"train": 1, "valid": 7, "test": 9}[split]
    rows = (
        f"e{base + i % 20}\tr{i % 2}\te{(base + i % 20 + shift + i // 20) % (base + 20)}\n"
        for i in range(count)
    )
    return "".join(rows).encode()


FILES = {
    f"{snapshot}/{split}.txt": _content(snapshot, split)
    for snapshot in range(2)
    for split in ("train", "valid", "test")
}
ENTRY = Entry(
    "Small",
    "somebody/streams",
    "0" * 40,
    "data/SMALL",
    "MIT",
    tuple(RegisteredFile(path, hashlib.sha256(raw).hexdigest(), len(raw)) for path, raw in FILES.items()),
)


def whole(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def serve(
    bodies: dict[str, bytes], answer: Answer = whole, only: str = ""
) -> Iterator[tuple[str, list[str]]]:
    """A loopback server: (base URL, paths it was asked for); `answer` is for paths ending in `only`."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = bodies.get(self.path)
            if body is None:
                self.send_error(404)
            else:
                (answer if self.path.endswith(only) else whole)(self, body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def on_mirror() -> dict[str, bytes]:
    return {f"/{ENTRY.name}/{path}": raw for path, raw in FILES.items()}


def members(prefix: str = "streams-0000/data/SMALL/") -> dict[str, bytes]:
    return {prefix + path: raw for path, raw in FILES.items()}


def zip_of(content: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, body in content.items():
            packed.writestr(name, body)
    return raw.getvalue()


def tar_of(content: dict[str, bytes], *more: tuple[tarfile.TarInfo, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as packed:
        for name, body in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            packed.addfile(info, io.BytesIO(body))
        for info, body in more:
            info.size = len(body)
            packed.addfile(info, io.BytesIO(body))
    return raw.getvalue()
