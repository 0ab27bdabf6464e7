"""Headless Chromium for tests: what a page logs, and what a script finds in it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)
SCHEMES = {"dark": 0, "light": 1}  # Chromium's numbers

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine (Debian: apt-get install chromium)"
)


def load(page: Path, profile: Path, *, width: int = 1280, scheme: str = "light") -> tuple[str, list[str]]:
    """The page's DOM once its scripts have run, and every line it logged."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={profile}",
            f"--window-size={width},1400",
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            "--virtual-time-budget=20000",
            "--dump-dom",
            page.absolute().as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def evaluate(page: Path, profile: Path, script: str, **how: Any) -> Any:
    """The JSON that an async function body returns inside the page.

    Runs on a copy without the page's own content policy, which forbids foreign scripts.
    """
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
    probe = (
        "<script>addEventListener('load', async () => { let found; try { found = await (async () => {"
        f"{script}"
        "})(); } catch (error) { found = {error: String(error)}; }"
        "const out = document.createElement('template'); out.id = 'probe';"
        "out.setAttribute('data-found', JSON.stringify(found)); document.body.append(out); });"
        "</script></body>"
    )
    profile.mkdir(parents=True, exist_ok=True)
    copy = profile / "probe.html"
    copy.write_text(text.replace("</body>", probe), encoding="utf-8")
    dom, _ = load(copy, profile / "chromium", **how)
    found = re.search(r'id="probe" data-found="([^"]*)"', dom)
    assert found is not None, "the page's script did not finish"
    value = json.loads(html.unescape(found[1]))
    assert not (isinstance(value, dict) and "error" in value), value
    return value
