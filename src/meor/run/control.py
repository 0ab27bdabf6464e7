"""What a method adds to the host: nothing, a penalty while training, or transforms of scores after.

Within a pair every method sees the same base, buffers, negatives and references: all are addressed by the
seed. What differs is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from meor.backbone import BACKBONES, Model
from meor.evaluation.ranks_file import ranks_bytes
from meor.methods import METHODS, at_size
from meor.methods.calibration import Calibration, Calibrator, calibration_bytes
from meor.methods.coefficient import Balance, Candidate, balance_penalty
from meor.methods.penalty import Penalty, penalty_records
from meor.methods.probe import weight
from meor.run.config import Config
from meor.run.judge import BySplit, Judge
from meor.run.layout import CALIBRATION, RANKS, RECORDS
from meor.run.prepare import host_of, update_of
from meor.run.records_file import comparison_of, records_bytes
from meor.run.trainer import Term
from meor.stream.snapshot import Stream
from meor.training.host import Update
from meor.training.loss import Aim
from meor.training.training import Training

Log = Callable[..., None]

CONTROL = "control"
"""Beside the splits of endpoints.json: what a penalty was multiplied with, and from which update on."""

UNCONTROLLED = "nothing was controlled: this run equals the host without a penalty"


class Control:
    """A method that adds nothing: the host alone."""

    def __init__(self, config: Config, stream: Stream, judge: Judge, log: Log) -> None:
        self.config, self.stream, self.judge, self.log = config, stream, judge, log

    def term(self, number: int) -> Term:
        """What training at an update adds."""
        return Term()

    def told(self) -> dict[str, Any]:
        """What endpoints.json says about a penalty, once every update is made; nothing without one."""
        return {}

    def results(
        self, update: Update, model: Model, earlier: Callable[[int], Model], term: Term
    ) -> Mapping[str, bytes]:
        """What is written beside the model of an update; `earlier` reads committed models."""
        return self._ranks_file(self.judge.ranks(update.number, model))

    @staticmethod
    def _ranks_file(ranks: BySplit) -> dict[str, bytes]:
        return {RANKS: ranks_bytes(ranks)} if ranks else {}


class Penalized(Control):
    """MEOR and its controls: one code path, every variant. A given coefficient is decided from the start."""

    _penalty: Penalty | None = None

    def __init__(self, config: Config, stream: Stream, judge: Judge, log: Log) -> None:
        super().__init__(config, stream, judge, log)
        self.coefficient, self.begins = config.coefficient, config.coefficient_from
        if self.coefficient is not None:
            log("coefficient", rule=self.rule, coefficient=self.coefficient, update=self.begins)

    @property
    def rule(self) -> str:
        """How the coefficient was decided, or will be."""
        if self.config.coefficient is None:
            return self.config.coefficient_rule
        return "own" if self.config.coefficient == METHODS[self.config.method].coefficient else "given"

    def measured(self, found: Balance) -> bool:
        """Log the balance of an update (decision 34); True if it suffices to decide the coefficient."""
        text = found.describe()
        if found.is_inactive:
            is_last = found.update == self.stream.updates[-1]
            text += f"; {UNCONTROLLED}" if is_last else "; it has no penalty, and the next update decides"
        made_from = {"inactive": found.is_inactive, "text": text, **asdict(found)}
        self.log("coefficient", rule="balance", **made_from)
        return not found.is_inactive

    def decide(
        self, found: Balance, multiple: float = 1.0, candidates: Sequence[Candidate] | None = None
    ) -> None:
        """The coefficient from this update on; a multiple is recorded with what it was chosen from."""
        self.coefficient, self.begins = multiple * found.coefficient, found.update
        if candidates is not None:
            self.log(
                "coefficient",
                rule="validated",
                coefficient=self.coefficient,
                update=found.update,
                multiple=multiple,
                candidates=[asdict(one) for one in candidates],
                text=f"validated: {multiple:g} times the balanced coefficient, {self.coefficient:.6g}",
            )

    def penalty(self, number: int) -> Penalty:
        """The penalty of an update: balancing, training and records share one object and its constants."""
        if self._penalty is None or self._penalty.cohort.update != number:
            self._penalty = penalty_of(self.config, self.stream, number)
        return self._penalty

    def term(self, number: int) -> Term:
        coefficient = self.coefficient if number >= self.begins else None
        penalty = self.penalty(number)
        penalty.beside = True  # from now on it is added to the host's loss
        return Term(penalty, coefficient or 0.0, aim_of(self.config, self.stream, number))

    def told(self) -> dict[str, Any]:
        coefficient = self.coefficient or 0.0
        controlled = coefficient > 0.0 and self.begins <= self.stream.updates[-1]
        found: dict[str, Any] = {
            "controlled": controlled,
            "rule": self.rule,
            "coefficient": coefficient,
            "first_update": self.begins if controlled else None,
        }
        return {CONTROL: found if controlled else {**found, "reason": UNCONTROLLED}}

    def results(
        self, update: Update, model: Model, earlier: Callable[[int], Model], term: Term
    ) -> Mapping[str, bytes]:
        ranks = super().results(update, model, earlier, term)
        if METHODS[self.config.method].variant is None:
            return ranks  # it looked at something else
        assert term.penalty is not None  # noqa: S101  (made by `term` above)
        records = penalty_records(term.penalty.comparison, model, term.penalty.held)
        self.log(
            "records",
            update=update.number,
            eligible=int(records.eligible.sum()),
            active=int(records.active.sum()),
            scale_terms=records.scale.wins(),
            dropped=records.dropped,
        )
        return {**ranks, RECORDS: records_bytes(records)}


class Calibrated(Control):
    """Persistent calibration: the host is trained, its scores are transformed by admission cohort."""

    def __init__(self, config: Config, stream: Stream, judge: Judge, log: Log) -> None:
        super().__init__(config, stream, judge, log)
        chosen = config.penalty
        self.calibrator = Calibrator(
            stream,
            config.seed,
            filter_splits=tuple(judge.filter_splits),
            scale_sample=chosen.scale_sample,
            eta=chosen.mad_weight,
            epsilon=chosen.epsilon,
        )
        self.fitted = Calibration()

    def results(
        self, update: Update, model: Model, earlier: Callable[[int], Model], term: Term
    ) -> Mapping[str, bytes]:
        # Cohorts are fitted in order; a resumed run fits those of committed updates again.
        for cohort in range(len(self.fitted.fits) + 1, update.number):
            self.fitted = self.calibrator.admit(cohort, earlier(cohort), self.fitted)
        summary = self.calibrator.summary(update.number, model)
        self.fitted = self.calibrator.admit(update.number, model, self.fitted, summary)
        fit = self.fitted.fits[-1]
        ranks: dict[Any, Any] = {}
        if update.number in self.judge.updates:
            ranks = {
                split: self.calibrator.ranks(
                    update.number,
                    model,
                    self.fitted,
                    split=split,
                    sides=self.judge.sides,
                    summary=summary,
                    sample=self.judge.sample,
                )
                for split in self.judge.splits
            }
        return {
            **self._ranks_file(ranks),
            CALIBRATION: calibration_bytes(fit, summary),
        }


def control_of(config: Config, stream: Stream, judge: Judge, log: Log) -> Control:
    kinds = {"host": Control, "penalty": Penalized, "transform": Calibrated}
    return kinds[METHODS[config.method].kind](config, stream, judge, log)


def penalty_of(config: Config, stream: Stream, number: int) -> Penalty:
    build = METHODS[config.method].build or Penalty
    return build(comparison_of(config, stream, number), BACKBONES[config.backbone])


def aim_of(config: Config, stream: Stream, number: int) -> Aim:
    """What is asked of facts beside the penalty of an update; a large one has its full weight."""
    share = weight(stream.growth(number))
    return Aim(at_size(config.lift or 0.0, share), at_size(config.shrink or 0.0, share))


def balanced(
    config: Config,
    stream: Stream,
    number: int,
    unregularised: Callable[[int], Model],
    penalty: Penalty | None = None,
) -> Balance:
    """The balanced coefficient (decision 34) at the pair's unregularised model after an update.

    No rank is looked at. `penalty` is the one of the update, where there is one.
    """
    update = update_of(config, stream, number)
    if update.n_entities == update.n_old:
        return Balance(0.0, 0.0, 0.0, records=0, active=0, update=number)  # no newcomer rows
    host, model = host_of(config), unregularised(number)
    training = Training.begin(host, model, update)
    steps, aim = host.steps(0), aim_of(config, stream, number)
    losses = (host.loss(replace(steps[index].batch, aim=aim)) for index in range(len(steps)))
    penalty = penalty or penalty_of(config, stream, number)
    return balance_penalty(penalty, training.entity, training.relation, losses)
