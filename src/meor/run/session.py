"""Start a run, or go on with one: everything outside of it is checked before its folder exists."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from meor.compiled import set_threads
from meor.errors import ConfigError, MeorError, NonFiniteError, RunError
from meor.evaluation.endpoints import note, overall
from meor.methods import CAP, METHODS, NONE
from meor.methods.coefficient import (
    FACTORS,
    MULTIPLES,
    TRIAL_SEED_OFFSET,
    Balance,
    Candidate,
    best_multiple,
    end_of_grid,
    goes_on,
)
from meor.run.base_store import default_cache
from meor.run.classes import class_remark, classes_hash
from meor.run.config import Config
from meor.run.folder import RunFolder, make_free
from meor.run.given_base import given_base, with_width
from meor.run.layout import is_run
from meor.run.mend import mended, released, resumable
from meor.run.prepare import check, content_of, host_of, remarks
from meor.run.runner import Runner
from meor.run.settings import VALIDATED
from meor.run.trainer import Resources, Watcher
from meor.run.view import RunView
from meor.storage.disk import Disk, explained
from meor.stream.registry import open_stream
from meor.stream.snapshot import Stream


def start(
    config: Config,
    out: Path,
    *,
    stream: Stream | None = None,
    resources: Resources | None = None,
    watcher: Watcher | None = None,
    force: bool = False,
    disk: Disk | None = None,
    greeting: str = "",
) -> dict[str, Any]:
    """Run to the end in a new folder; the content of endpoints.json.

    `stream` spares reading it again; `meor resume` will look for `config.stream`. `greeting` is said when the
    folder is there.
    """
    resources, watcher = resources or Resources(), watcher or Watcher()
    if stream is None:
        place = Path(config.data_dir) if config.data_dir else None
        stream = open_stream(config.stream, data_dir=place, **config.reading)
    check(config, stream, resources.memory)
    told = class_remark(config, stream)
    use_threads(resources.threads)
    config, chosen = _with_factor(config, stream, resources, watcher)
    config, config_hash = _fingerprinted(config, stream)
    make_free(out, force=force)
    with resumable(out):
        begun = RunFolder.begin(out, config, stream, config_hash, threads=resources.threads, disk=disk)
        with released(begun) as folder:
            folder.log("started", config_hash=config_hash, stream=stream.name, threads=resources.threads)
            if chosen:
                folder.log("cap", **chosen)
            if greeting:
                watcher.say(greeting)
            for remark in filter(None, (*remarks(stream, host_of(config)), told)):
                watcher.say(remark)
                folder.log("warning", text=remark)
            return _conduct(Runner(folder, config, stream, resources, watcher), resumed=False)


def resume(
    path: Path,
    *,
    stream: Stream | None = None,
    data_dir: Path | None = None,
    resources: Resources | None = None,
    watcher: Watcher | None = None,
    disk: Disk | None = None,
) -> dict[str, Any]:
    """Go on with a run to the same bytes; one that is complete and undamaged is left as it is."""
    resources, watcher = resources or Resources(), watcher or Watcher()
    with resumable(path), released(RunFolder.take(path, disk=disk)) as folder:
        view = RunView.open(path)
        intact = all(view.files.problem(name) is None for name in view.manifest["sha256"])
        if view.complete and intact:
            folder.tidy()
            return view.endpoints()
        if view.config.dial is not None:
            raise RunError(
                f"{path} holds a dialled run that is unfinished or damaged, and there is nothing to train. "
                f"Make it again with `meor dial RUN --keep {view.config.dial:g} --out {path} --force`."
            )
        folder.verified.update(view.files.verified)
        stream = stream or view.stream(data_dir)
        config, config_hash = _fingerprinted(view.config, stream)
        if config_hash != folder.manifest["config_hash"]:
            raise RunError(
                f"{path} was begun with other settings, another stream, another given base or other classes. "
                "Put them back as they were, or start a new run."
            )
        use_threads(resources.threads)
        mended(folder, stream, watcher)
        return _conduct(Runner(folder, config, stream, resources, watcher), resumed=True)


def _conduct(runner: Runner, *, resumed: bool) -> dict[str, Any]:
    """To the end. Where the coefficient is to be validated, trial runs are made once it is balanced."""
    runner.begin(resumed=resumed)
    while (waiting := runner.advance()) is not None:
        runner.decide(waiting, *_validated(runner, waiting))
    return runner.endpoints


def _validated(runner: Runner, balance: Balance) -> tuple[float, list[Candidate]]:
    """The multiple of a balanced coefficient (decision 34), tried in runs of another seed."""
    config, trials = runner.config, _Trials.of(runner.config, runner.stream, runner.resources, runner.watcher)
    alone, decided = trials.alone(), {"coefficient_from": balance.update}
    candidates: list[Candidate] = []
    while goes_on(candidates):
        multiple = MULTIPLES[len(candidates)]
        changes = {**decided, "coefficient": multiple * balance.coefficient}
        try:
            values = trials.tried(f"{config.method}-{multiple:g}", **changes)
        except NonFiniteError as error:
            runner.say(f"multiples from {multiple:g} on are not tried: {error}")
            break
        candidates.append(Candidate.against(alone, multiple, *values))
    chosen = best_multiple(candidates)
    if told := end_of_grid(chosen, candidates):
        runner.say(f"{config.method} takes {told}")
    return chosen, candidates


def _with_factor(
    config: Config, stream: Stream, resources: Resources, watcher: Watcher
) -> tuple[Config, dict[str, Any]]:
    """A run whose cap is to be validated: its factor as a number, and what that was chosen from."""
    if config.cap.factor != VALIDATED or not METHODS[config.method].capped:
        return config, {}
    trials = _Trials.of(config.model_copy(update={"method": CAP}), stream, resources, watcher)
    alone = Candidate(0.0, *trials.tried(NONE, method=NONE))
    candidates = [
        Candidate.against(alone, factor, *trials.tried(f"{CAP}-{factor:g}", cap=config.cap.at(factor)))
        for factor in FACTORS
    ]
    chosen = best_multiple(candidates)
    if not chosen:
        raise ConfigError(
            f"no cap.factor of {FACTORS[0]:g} to {FACTORS[-1]:g} keeps A_TN on validation facts",
            remedy="Give a larger one, or a method without cap",
        )
    at_end = chosen in (FACTORS[0], FACTORS[-1])
    told = f"cap.factor {chosen:g} is chosen on validation facts" + (", at the end of its grid" * at_end)
    watcher.say(told)
    return config.model_copy(update={"cap": config.cap.at(chosen)}), {
        "text": told,
        "candidates": [asdict(one) for one in candidates],
    }


@dataclass(frozen=True, slots=True)
class _Trials:
    """Runs aside, of another seed, that rank validation facts only and choose something by them.

    They are kept beside the stored bases, so an interrupted choice goes on.
    """

    folder: Path
    config: Config
    stream: Stream
    resources: Resources
    watcher: Watcher

    @classmethod
    def of(cls, config: Config, stream: Stream, resources: Resources, watcher: Watcher) -> _Trials:
        folder = (resources.cache or default_cache()) / "trials" / _fingerprinted(config, stream)[1]
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        aside = {"seed": config.seed + TRIAL_SEED_OFFSET, "coefficient_rule": "balance"}
        chosen = config.for_selection().model_copy(update=aside)
        return cls(folder, chosen, stream, replace(resources, alone=None), watcher)

    def alone(self) -> Candidate:
        """What everything is compared with: the host, capped where the method is."""
        start_from = METHODS[self.config.method].start
        return Candidate(0.0, *self.tried(start_from, method=start_from, coefficient=None))

    def tried(self, name: str, **changes: Any) -> tuple[float, float]:
        """H_cur and A_TN on validation facts."""
        found = _trial(self.config.model_copy(update=changes), self.folder / name, self)
        cells = {key: overall(found["valid"][key]) for key in ("H_cur", "A_TN")}
        values = {key: each.value for key, each in cells.items() if each.value is not None}
        if missing := [key for key in cells if key not in values]:
            raise ConfigError(
                f"what is validated is judged by validation facts, and none of {self.config.stream} has a "
                f"place in {missing[0]}",
                remedy="Choose the rule balance, or give a number",
            )
        told = ", ".join(f"{key} {value:.4f}{cells[key].mark}" for key, value in values.items())
        footnote = note(cells.items())
        self.watcher.say(
            f"trial {name}: validation {told}" + (f" ({footnote.rstrip('.')})" if footnote else "")
        )
        return values["H_cur"], values["A_TN"]


def _trial(config: Config, path: Path, trials: _Trials) -> dict[str, Any]:
    """A run made aside, or what is left of one brought to its end."""
    if is_run(path) and _can_go_on(config, trials.stream, path, trials.watcher):
        return resume(path, stream=trials.stream, resources=trials.resources)
    return start(config, path, stream=trials.stream, resources=trials.resources, force=True)


def _can_go_on(config: Config, stream: Stream, path: Path, watcher: Watcher) -> bool:
    """Can a trial in the cache be continued? A damaged one is made again and never fails the run."""
    try:
        view = RunView.open(path)
        stored = view.manifest["config_hash"], _fingerprinted(view.config, stream)[1]
        if set(stored) != {_fingerprinted(config, stream)[1]}:
            raise RunError("it was made with other settings or from another stream.")
    except MeorError as error:
        watcher.say(f"the trial {path} is made again: {error}")
        return False
    return True


def use_threads(count: int) -> None:
    """Results do not depend on it."""
    torch.set_num_threads(count)
    set_threads(count)


def _fingerprinted(config: Config, stream: Stream) -> tuple[Config, str]:
    """The config with the width of a given base, and the hash of all that determines results."""
    base_hash = None
    if config.base_model is not None:
        model = given_base(config, stream)
        config, base_hash = with_width(config, model), content_of(model)
    return config, config.fingerprint(stream.content_hash(), base_hash, classes_hash(config))
