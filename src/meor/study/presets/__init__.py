"""The studies that have a name."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from meor.errors import ConfigError

PRESET_STUDIES = (
    "primary",
    "ablation",
    "transfer",
    "boundary",
    "frontier",
    "control",
    "field",
    "sensitivity",
    "carry-over",
    "retrain",
)


def study_file(name_or_path: str) -> Path:
    """The file behind the name of a preset, or a path."""
    if name_or_path in PRESET_STUDIES:
        return Path(str(files(__name__).joinpath(f"{name_or_path}.yaml")))
    path = Path(name_or_path)
    if not path.is_file():
        raise ConfigError(
            f"there is no study {name_or_path}",
            remedy=f"Name one of {', '.join(PRESET_STUDIES)}, or a study file (YAML)",
        )
    return path
