"""`meor serve`: it says where it answers, and a port in use is an error of one sentence."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
from tests.cli.test_interrupt import MEOR
from typer.testing import CliRunner

from meor.cli import app


def test_it_says_where_it_answers_and_ends_with_ctrl_c(store: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MEOR, "serve", str(store), "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert found is not None, said
        assert httpx.get(f"{found[0]}/health/ready").status_code == 200
        server.send_signal(signal.SIGINT)
        rest = server.stderr.read()
    assert server.returncode == 130
    assert rest == "meor: interrupted\n"


def test_a_port_in_use_is_an_error_of_one_sentence(store: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["serve", str(store), "--port", port])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"meor: cannot listen on 127.0.0.1, port {port} (")
    assert "--port" in done.stderr
