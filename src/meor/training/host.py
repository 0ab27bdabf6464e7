"""What a host is: the training loop sees every continual learner through this class.

A host cuts an update into stages (which rows are trained, for how many passes, and whether they validate),
a pass into batches, and gives each batch a loss. The loop does the rest: penalty, step, checkpoint, early
stopping. Batches have numbers, so a stopped training goes on in the middle of a pass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from meor.backbone.base import Backbone, declared_after
from meor.errors import ConfigError
from meor.stream.occurrence import ALL
from meor.stream.snapshot import Stream
from meor.training.draws import Buffer, empty_buffer, one_of
from meor.training.loss import Batch, Embedding, link_loss
from meor.training.rows import RowSum
from meor.typing import Facts, Ids, Split

Order = Literal["file", "permuted"]
ReplayNegatives = Literal["current", "old"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How one snapshot is trained. The defaults are the paper's refinement."""

    seed: int = 0
    learning_rate: float = 1e-4
    passes: int = 1
    batch_size: int = 2048  # current facts per batch; replay facts come on top
    negatives: int = 10
    order: Order = "file"
    replay_negatives: ReplayNegatives = "current"
    validate_every: int = 0  # passes between validations; 0 trains for all passes
    validate_steps: int = 0  # the same in steps, rounded up to whole passes
    patience: int = 3  # validations without improvement before stopping
    tolerance: float = 0.0  # share of the best so far that an improvement adds at least
    schedule: tuple[int, ...] = ()  # passes of updates 1, 2, ... where they are decided; `passes` else
    steps: int = 0  # of each update, rounded up to whole passes; 0: `passes`
    least_passes: int = 0  # before so many nothing stops
    least_steps: int = 0  # the same in steps of an update

    def __post_init__(self) -> None:
        one_of("order", self.order, Order)
        one_of("replay_negatives", self.replay_negatives, ReplayNegatives)
        counts = (self.passes, self.batch_size, self.negatives, self.patience, *self.schedule)
        if min(counts) < 1 or min(self.validate_every, self.validate_steps, self.steps) < 0:
            raise ConfigError(
                f"a plan has a number that is too small: {self}",
                remedy="Give at least one pass, fact per batch, negative and validation of patience",
            )

    def passes_for(self, steps: int, facts: int) -> int:
        """Passes over so many facts that make at least so many steps."""
        return max(1, math.ceil(steps / max(1, math.ceil(facts / self.batch_size))))


@dataclass(frozen=True, slots=True)
class Update:
    """What comes in at an update: its training facts, the replay buffer, and which ids are old."""

    number: int
    train: Facts
    n_old: int
    n_entities: int
    m_old: int
    m_relations: int
    replay: Buffer = field(default_factory=empty_buffer)
    past: tuple[Facts, ...] = ()  # training facts of earlier snapshots, oldest first

    @classmethod
    def of(cls, stream: Stream, number: int, replay: Buffer | None = None) -> Update:
        """Update `number` of a stream; 0 is the base, where every entity is new."""
        return cls(
            number,
            stream.snapshots[number].train,
            stream.entity_counts[number - 1] if number else 0,
            stream.entity_counts[number],
            stream.relation_counts[number - 1] if number else 0,
            stream.relation_counts[number],
            empty_buffer() if replay is None else replay,
            tuple(each.train for each in stream.snapshots[:number]),
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One step's facts with their negatives, and which facts of the replay buffer are among them."""

    batch: Batch
    replay: Ids


class Steps(Protocol):
    """The steps of a pass, by number; each is made when it is needed."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Step: ...


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of an update's training: which rows are trained (from the first one on), by which plan.

    Each stage has a fresh Adam. A stage that validates ends with its best rows, where the next one begins.
    """

    plan: Plan
    entity_from: int
    relation_from: int


@dataclass(frozen=True, slots=True)
class Validation:
    """MRR on facts that the snapshot in training sets aside, both sides, among all entities of the moment."""

    split: Split = Split.VALID
    sample: int = ALL  # facts at most: a seeded sample, the same ones at every validation
    filter_splits: tuple[Split, ...] = (Split.TRAIN, Split.VALID)


class HostSettings(BaseModel):
    """The settings of a host of one's own are a subclass: `host: {name: ..., setting: ...}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str


class Host(ABC):
    """A continual learner. One object serves a whole run; `begin` opens each stage of each update."""

    name: ClassVar[str]
    Settings: ClassVar[type[HostSettings]] = HostSettings
    backbones: ClassVar[tuple[str, ...]] = ()
    """Names of those its loss is written for; none named: any."""

    def __init__(
        self, plan: Plan | None = None, *, base: Plan | None = None, settings: HostSettings | None = None
    ) -> None:
        """`plan` is for updates, `base` for snapshot 0 (the same one where it is not given)."""
        self.plan = plan or Plan()
        self.base = base or self.plan
        self.settings = settings or self.Settings(name=self.name)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not declared_after(cls, "by_rows", ("loss", "parameters", "stepped")):
            cls.by_rows = Host.by_rows  # type: ignore[method-assign]

    @classmethod
    def defaults(cls, settings: HostSettings) -> Mapping[str, Any]:
        """Settings of a run that this host brings, before the preset's and after what was given."""
        return {}

    @property
    def validation(self) -> Validation | None:
        """What decides about stopping; None: the rules of the run (decision 15)."""
        return None

    @abstractmethod
    def stages(self, update: Update) -> Iterator[Stage]:
        """The stages of an update's training, in order. Update 0 is the base: every row of it is new."""

    def plan_of(self, update: Update) -> Plan:
        if not update.number:
            return self.base
        plan, decided = self.plan, self.plan.schedule[update.number - 1 : update.number]
        if decided:
            return replace(plan, passes=decided[0])
        if plan.steps:
            return replace(plan, passes=plan.passes_for(plan.steps, len(update.train)))
        return plan

    def first_rows(self, update: Update) -> tuple[int, int]:
        """The first entity row and the first relation row that any stage trains; rows below stay."""
        stages = list(self.stages(update))
        return min(one.entity_from for one in stages), min(one.relation_from for one in stages)

    def recall(self, kept: Mapping[str, Tensor]) -> None:  # noqa: B027  (optional)
        """Take what `kept` gave at the end of the update before. Called before `begin` opens an update."""

    def start(self) -> None:  # noqa: B027  (optional)
        """Once per update, before its first step: for hosts that place new rows themselves."""

    def kept(self) -> dict[str, Tensor]:
        """What the next update must know of this one beside its rows; it is stored with them."""
        return {}

    def begin(
        self, update: Update, stage: Stage, backbone: Backbone, entity: Embedding, relation: Embedding
    ) -> None:
        """Open a stage on grown tables. Called again with the tables of a checkpoint when resuming."""
        self.update, self.stage, self.backbone = update, stage, backbone
        self.entity, self.relation = entity, relation

    def parameters(self, entity: Embedding, relation: Embedding) -> dict[str, nn.Parameter]:
        """What the optimizer moves, once `begin` was called: the trained rows, unless a host has others."""
        return {"entity": entity.trained, "relation": relation.trained}

    @abstractmethod
    def steps(self, pass_number: int) -> Steps:
        """The steps of a pass of the stage; every call gives the same ones."""

    def loss(self, batch: Batch) -> Tensor:
        """The host objective of a batch at the present weights (L_host of the paper), less its constants."""
        return link_loss(self.backbone, self.entity, self.relation, batch, constants=False)

    def by_rows(self, batch: Batch) -> RowSum | None:
        """`loss` in a form that a step is made from without a table of gradients; None: it has no such form.

        A class that overrides `loss`, `parameters` or `stepped` has none, unless it declares one again:
        whatever they read may be a gradient.
        """
        return None

    def stepped(self) -> None:  # noqa: B027  (optional)
        """After each step: for hosts that follow their own weights (a moving teacher, Fisher sums)."""

    def end(self) -> None:  # noqa: B027  (optional)
        """Close a stage, once its best weights are in place."""

    def tensors(self) -> dict[str, Tensor]:
        """State of its own that a checkpoint must hold; draws are addressed and need none."""
        return {}

    def load(self, tensors: dict[str, Tensor]) -> None:  # noqa: B027  (optional)
        """Take back what `tensors` gave, after `begin`."""
