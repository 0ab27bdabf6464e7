"""`meor dial --keep`: a run folder at one point of the dial, as whole as the run that it is made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from meor.backbone import Model
from meor.errors import RunError
from meor.evaluation.dial import checked, require_bilinear, scaled
from meor.run.control import CONTROL, control_of
from meor.run.dial import require_dialable
from meor.run.folder import RunFolder, make_free
from meor.run.judge import Judge
from meor.run.layout import ENDPOINTS, MANIFEST, MODEL, update_name
from meor.run.prepare import digest, host_of, pack_model, update_of
from meor.run.trainer import Resources
from meor.run.view import RunView
from meor.storage.disk import sha256_of
from meor.storage.json_file import to_json
from meor.stream.snapshot import Stream

_OWN_EVENTS = {"records", "finished"}
"""Lines of a log that the new run writes itself."""


def keep(
    run: RunView | Path | str,
    scale: float,
    out: Path,
    *,
    stream: Stream | None = None,
    resources: Resources | None = None,
    say: Callable[[str], object] = lambda _: None,
    force: bool = False,
) -> dict[str, Any]:
    """Write a run whose newcomers' rows are those of `run` times a scale; the content of endpoints.json.

    Ranks, endpoints and records are made anew, on the splits and by the rules of the run.
    """
    view = run if isinstance(run, RunView) else RunView.open(Path(run))
    resources = resources or Resources()
    require_dialable(view)
    (scale,) = map(float, checked([scale]))
    if out.resolve() == view.path.resolve():
        raise RunError(f"{out} is the run that is dialled. Name another folder with --out.")
    stream = stream or view.stream()
    require_bilinear(view.model(stream.updates[-1]))
    config = view.config.model_copy(update={"dial": scale})
    # The run that it comes from and the scale determine it.
    config_hash = digest(f"{view.manifest['config_hash']} dial {scale!r}".encode())
    make_free(out, force=force)
    folder = RunFolder.begin(out, config, stream, config_hash, threads=resources.threads)
    try:
        _continue_log(folder, view, scale)
        return _Kept(folder, view, stream, scale, resources, say).whole()
    finally:
        folder.release()


def _continue_log(folder: RunFolder, view: RunView, scale: float) -> None:
    """What happened to the run before, with its times; then where this one comes from."""
    for event in view.events():
        fields = dict(event)
        if (name := str(fields.pop("event", ""))) not in _OWN_EVENTS:
            folder.log(name, **fields)
    of = {"run": view.path.resolve().name, "run_config_hash": view.manifest["config_hash"]}
    folder.log("dialled", scale=scale, **of, run_manifest_sha256=sha256_of(view.path / MANIFEST))


class _Kept:
    """The updates of a dialled run, one after the other."""

    def __init__(
        self,
        folder: RunFolder,
        view: RunView,
        stream: Stream,
        scale: float,
        resources: Resources,
        say: Callable[[str], object],
    ) -> None:
        self.folder, self.view, self.stream, self.scale = folder, view, stream, scale
        self.resources, self.say, config = resources, say, view.config
        self.judge = Judge(folder, config, stream, host_of(config), resources.memory)
        self.control = control_of(config, stream, self.judge, self._log)

    def whole(self) -> dict[str, Any]:
        name = f"{update_name(0)}/{MODEL}"
        self.folder.commit_update(0, {MODEL: self.view.content(name)})
        for number in self.stream.updates:
            self.say(f"update {number} of {self.stream.updates[-1]}: ranking")
            model, update = self._model(number), update_of(self.view.config, self.stream, number)
            found = self.control.results(update, model, self._model, self.control.term(number))
            self.folder.commit_update(number, {MODEL: pack_model(model), **found})
        told = {CONTROL: before[CONTROL]} if CONTROL in (before := self.view.endpoints()) else {}
        endpoints = {**self.judge.endpoints(), **told}
        self.folder.commit_result(ENDPOINTS, to_json(endpoints))
        self.folder.finish(threads=self.resources.threads)
        return endpoints

    def _model(self, update: int) -> Model:
        return scaled(self.view.model(update), self.stream.entity_counts[0], self.scale)

    def _log(self, event: str, **fields: Any) -> None:
        """The coefficient was logged when it was chosen."""
        if event in _OWN_EVENTS:
            self.folder.log(event, **fields)
