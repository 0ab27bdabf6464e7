"""From settings to the objects of a run, with every check that needs no training made before it begins."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from meor.backbone import BACKBONES, Geometry, Model
from meor.errors import ConfigError
from meor.evaluation.tally import RankingPlan
from meor.hosts import HOSTS
from meor.hosts.replay import Replay
from meor.methods import METHODS
from meor.methods.cap import longest_newcomers
from meor.run.classes import classes_of
from meor.run.config import Config
from meor.run.layout import KEPT
from meor.run.stream_check import check_stream
from meor.storage.tensors import pack_tensors
from meor.stream.snapshot import Stream
from meor.training.adam import Longest
from meor.training.draws import draw_buffer
from meor.training.host import Host, Plan, Update
from meor.training.initialise import grow


def host_of(config: Config) -> Host:
    return HOSTS[config.host.name](refine_plan(config), base=base_plan(config), settings=config.host)


def dtype_of(config: Config) -> torch.dtype:
    return getattr(torch, config.dtype)  # type: ignore[no-any-return]


def base_plan(config: Config) -> Plan:
    """Base epochs are always shuffled: file order is a matter of refinement (decision 19)."""
    base = config.base
    return Plan(
        seed=config.seed,
        learning_rate=base.learning_rate,
        passes=base.epochs,
        batch_size=base.batch,
        negatives=base.negatives,
        order="permuted",
        validate_every=base.validate_every,
        patience=base.patience,
    )


def refine_plan(config: Config) -> Plan:
    refine = config.refine
    return Plan(
        seed=config.seed,
        learning_rate=refine.learning_rate,
        passes=refine.passes,
        batch_size=refine.batch,
        negatives=refine.negatives,
        order=refine.order,
        replay_negatives=refine.replay_negatives,
        validate_steps=refine.validate_steps,
        least_steps=refine.least_steps,
        patience=refine.patience,
        tolerance=refine.tolerance,
        schedule=refine.schedule or (),
        steps=refine.steps or 0,
    )


def update_of(config: Config, stream: Stream, number: int) -> Update:
    """An update with its replay buffer; 0 is the base, which has none."""
    refine = config.refine
    buffer = draw_buffer(stream, number, seed=config.seed, size=refine.replay_size, policy=refine.buffer)
    return Update.of(stream, number, buffer)


def grown(config: Config, stream: Stream, model: Model, update: Update, base: Model) -> Model:
    """A model with the initial rows of newcomers; they do not depend on the method."""
    scheme, std = config.refine.newcomer_init, config.base.init_std
    classes = classes_of(config, stream)
    return grow(model, update, seed=config.seed, scheme=scheme, std=std, base=base, classes=classes)


def longest_rows(config: Config, stream: Stream, update: Update, base: Model) -> Longest | None:
    """How long the rows of an update's newcomers may become; None where the method does not cap."""
    if not METHODS[config.method].capped:
        return None
    cap = config.cap
    if isinstance(cap.factor, str):
        raise ConfigError(
            "cap.factor=validated is chosen before a single run begins",
            remedy="Give a number here; `meor run --set cap.factor=validated` finds one",
        )
    exactly, at = cap.norm == "exactly", update.number
    return longest_newcomers(base.entity, stream, at, cap.factor, growth=cap.growth, exactly=exactly)


def pack_model(model: Model) -> bytes:
    kept = {f"{KEPT}{name}": value for name, value in model.kept.items()}
    return pack_tensors({"entity": model.entity, "relation": model.relation, **kept})


def content_of(model: Model) -> str:
    return digest(*(table.contiguous().numpy().tobytes() for table in (model.entity, model.relation)))


def digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def check(config: Config, stream: Stream, memory: int) -> None:
    """Refuse, before anything is written, what would only fail hours later."""
    check_stream(config, stream)
    last = len(stream.snapshots) - 1
    beyond = [update for update in config.evaluation.updates or () if update > last]
    if beyond:
        raise ConfigError(
            f"evaluation.updates names update {beyond[0]}, but {stream.name} ends with update {last}",
            remedy=f"Name updates between 1 and {last}",
        )
    wanted = HOSTS[config.host.name].backbones
    if wanted and config.backbone not in wanted:
        raise ConfigError(
            f"the host {config.host.name} trains {' or '.join(wanted)}, not {config.backbone}",
            remedy=f"Leave the backbone out, or give --backbone {wanted[0]}",
        )
    if METHODS[config.method].capped and BACKBONES[config.backbone].geometry is not Geometry.DOT:
        raise ConfigError(
            f"{config.method} caps norms, and under {config.backbone} a longer row does not score higher",
            remedy="Choose a backbone that scores by inner product, or a method without cap",
        )
    asked = [name for name in ("lift", "shrink") if getattr(config, name)]
    if asked and HOSTS[config.host.name].loss is not Host.loss:
        raise ConfigError(
            f"{asked[0]} changes the loss of {Replay.name}, and {config.host.name} has one of its own",
            remedy=f"Leave {' and '.join(asked)} out",
        )
    if config.shrink and BACKBONES[config.backbone].geometry is not Geometry.DOT:
        raise ConfigError(
            f"shrink keeps rows short, and under {config.backbone} a longer row does not score higher",
            remedy="Choose a backbone that scores by inner product, or leave shrink out",
        )
    if config.dial is not None:
        raise ConfigError(
            "dial is no setting of a training: it says what a run was scaled by afterwards",
            remedy="Leave it out, and dial the finished run with `meor dial`",
        )
    _try_memory(config, stream, memory)


def _try_memory(config: Config, stream: Stream, memory: int) -> None:
    """Refuse a byte budget that does not suffice to rank the largest universe."""
    backbone = BACKBONES[config.backbone]
    RankingPlan.within(
        memory,
        stream.entity_counts[-1],
        backbone.width(config.dim),
        widened=config.dtype != "float64",
        as_bytes=backbone.geometry is Geometry.L1,
    )


NAMED = 5  # updates that a remark names; the others are counted


def remarks(stream: Stream, host: Host) -> list[str]:
    """A sentence on updates that admit no entity, and one on facts that meet only frozen rows."""
    updates = [Update.of(stream, number) for number in stream.updates]
    return [*_quiet(updates), *_frozen(updates, host)]


def unlearned(update: Update, host: Host) -> int:
    """Facts of an update whose head, relation and tail are all rows that the host leaves as they are."""
    entity, relation = host.first_rows(update)
    head, of, tail = update.train.T
    return int(np.count_nonzero((head < entity) & (of < relation) & (tail < entity)))


def _quiet(updates: Sequence[Update]) -> list[str]:
    quiet = [update.number for update in updates if update.n_entities == update.n_old]
    if not quiet:
        return []
    one = len(quiet) == 1
    return [
        f"{'update' if one else 'updates'} {_listed([str(number) for number in quiet])} "
        f"{'admits' if one else 'admit'} no entity: no answer can lose rank to a newcomer there, and A_TN "
        "and A_QN have no query."
    ]


def _frozen(updates: Sequence[Update], host: Host) -> list[str]:
    missed = {update.number: missed for update in updates if (missed := unlearned(update, host))}
    if not missed:
        return []
    total = sum(missed.values())
    facts, are = ("fact", "is") if total == 1 else ("facts", "are")
    return [
        f"old rows are frozen under host {host.name}, so {total:,} {facts} between known entities "
        f"({_places(missed)}) {are} recorded but not learned; {_others(updates, missed)}."
    ]


def _places(missed: Mapping[int, int]) -> str:
    return _listed([f"{missed[number]:,} at update {number}" for number in missed])


def _others(updates: Sequence[Update], missed: Mapping[int, int]) -> str:
    """Which registered hosts would learn all of them."""
    affected = [update for update in updates if update.number in missed]
    hosts = {name: host_of(Config(host=name)) for name in HOSTS}  # each with the schedule it brings
    able = [name for name, host in hosts.items() if not any(unlearned(update, host) for update in affected)]
    if not able:
        return f"none of the registered hosts ({', '.join(HOSTS)}) moves old rows"
    return f"{_listed(able, len(able))} would learn them (--host)"


def _listed(words: Sequence[str], most: int = NAMED) -> str:
    shown = list(words[:most])
    if len(words) > most:
        shown.append(f"{len(words) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
