"""A server with a socket, for clients that need one."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any


class Server:
    """Listens from the beginning, in a thread, until `stop`."""

    def __init__(self, store: Path, token: str | None = None) -> None:
        import uvicorn

        from meor.serve.app import make_app

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        app: Any = make_app(store, token=token)
        self.server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_level="warning"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.05)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)
