"""What every continual learner is to the training loop.

A host says which rows it trains, cuts a pass into batches and gives each batch a loss. The loop does
the rest: penalty, step, checkpoint, early stopping. A batch can be asked for by number, so a training
that was stopped goes on in the middle of a pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from torch import Tensor, nn

from meor.backbone.base import Backbone
from meor.errors import ConfigError
from meor.stream.snapshot import Stream
from meor.training.buffer import Buffer, empty_buffer, one_of
from meor.training.loss import Batch, Table
from meor.typing import Facts, Ids

Order = Literal["file", "permuted"]
ReplayNegatives = Literal["current", "old"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How one snapshot is trained. The defaults are the paper's refinement."""

    seed: int = 0
    learning_rate: float = 1e-4
    passes: int = 1
    batch_size: int = 2048  # current facts a batch; replay facts come on top
    negatives: int = 10
    order: Order = "file"
    replay_negatives: ReplayNegatives = "current"
    validate_every: int = 0  # passes between validations; 0 trains for all passes
    patience: int = 3  # validations without improvement before stopping

    def __post_init__(self) -> None:
        one_of("order", self.order, Order)
        one_of("replay_negatives", self.replay_negatives, ReplayNegatives)
        if min(self.passes, self.batch_size, self.negatives, self.patience) < 1 or self.validate_every < 0:
            raise ConfigError(
                f"a plan has a number that is too small: {self}",
                remedy="Give at least one pass, fact a batch, negative and validation of patience",
            )


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
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One step's facts with their negatives, and which facts of the replay buffer are among them."""

    batch: Batch
    replay: Ids


class Steps(Protocol):
    """The steps of a pass, each made when it is asked for by number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Step: ...


class Host(ABC):
    """A continual learner. One object serves a whole run; `begin` opens each update."""

    name: ClassVar[str]

    @abstractmethod
    def first_rows(self, update: Update) -> tuple[int, int]:
        """The first entity row and the first relation row that it trains; rows below stay as they are."""

    @abstractmethod
    def begin(self, update: Update, plan: Plan, backbone: Backbone, entity: Table, relation: Table) -> None:
        """Open an update on grown tables. Called again with the tables of a checkpoint when resuming."""

    def parameters(self, entity: Table, relation: Table) -> dict[str, nn.Parameter]:
        """What the optimizer moves, asked after `begin`: the trainable rows, unless a host has others."""
        return {"entity": entity.trained, "relation": relation.trained}

    @abstractmethod
    def steps(self, pass_number: int) -> Steps:
        """The steps of a pass; the same ones however often it is asked."""

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """The host objective of a batch at the present weights (L_host of the paper)."""

    def stepped(self) -> None:  # noqa: B027  (optional)
        """After each step: for hosts that follow their own weights (a moving teacher, Fisher sums)."""

    def end(self) -> None:  # noqa: B027  (optional)
        """Close the update, once the best weights are in place."""

    def tensors(self) -> dict[str, Tensor]:
        """State of its own that a checkpoint must hold; draws are addressed and need none."""
        return {}

    def load(self, tensors: dict[str, Tensor]) -> None:  # noqa: B027  (optional)
        """Take back what `tensors` gave, after `begin`."""
