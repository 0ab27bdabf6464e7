"""axe-core on both reports, light and dark, wide and narrow: no serious finding."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.report.browser import evaluate, needs_chromium

from meor.report.html import page_of, write

AXE_VERSION = "4.14.0"
REPORTED = """
    ;document.querySelectorAll('details').forEach(fold => { fold.open = true; });
    const found = await axe.run(document);
    const places = each => each.nodes.map(node => node.target.join(' ')).slice(0, 5);
    return found.violations.map(each => ({id: each.id, impact: each.impact, at: places(each)}));
"""
pytestmark = [needs_chromium, pytest.mark.long]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe's source: the file that MEOR_AXE names, or fetched by npm."""
    named = os.environ.get("MEOR_AXE")
    if named:
        return Path(named).read_text(encoding="utf-8")
    if shutil.which("npm") is None:
        pytest.skip("no npm to fetch axe-core with; MEOR_AXE may name an axe.min.js")
    folder = tmp_path_factory.mktemp("axe")
    command = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(folder),
        f"axe-core@{AXE_VERSION}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode:
        pytest.skip(f"npm could not fetch axe-core: {done.stderr.strip()[:200]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["run", "study"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 500])
def test_axe_finds_nothing_serious(
    axe: str, run_folder: Path, study_folder: Path, tmp_path: Path, name: str, scheme: str, width: int
) -> None:
    write(page_of(run_folder if name == "run" else study_folder), tmp_path / "report.html")
    script = axe.replace("</script", r"<\/script") + REPORTED
    found = evaluate(tmp_path / "report.html", tmp_path / "probe", script, scheme=scheme, width=width)
    assert [each for each in found if each["impact"] in ("serious", "critical")] == []
