"""What a method adds to the replay run of its pair: nothing, a penalty while training, or transforms after.

Within a pair every method sees the same base, buffers, negatives and references: all are addressed by the
seed. What differs is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from meor.backbone import Model
from meor.evaluation.ranks_file import ranks_bytes
from meor.methods import METHODS
from meor.methods.balance import Balance, balance_penalty
from meor.methods.calibration import Calibration, Calibrator, calibration_bytes
from meor.methods.penalty import Penalty
from meor.methods.records import penalty_records
from meor.run.config import Config
from meor.run.judge import BySplit, Judge
from meor.run.layout import CALIBRATION, RANKS, RECORDS
from meor.run.prepare import buffer_of, host_of, refine_plan
from meor.run.records_file import comparison_of, records_bytes
from meor.run.validated import Candidate
from meor.stream.snapshot import Stream
from meor.training.base import Update
from meor.training.training import Training

Log = Callable[..., None]
Choose = Callable[[Balance], tuple[float, tuple[Candidate, ...]]]
"""From a balanced coefficient to the validated multiple of it, and what it was chosen from."""

ReplayModel = Callable[[int], Model]
"""The pair's replay model after an update."""

CONTROL = "control"
"""Beside the splits of endpoints.json: what a penalty was multiplied with, and from which update on."""

UNCONTROLLED = "nothing was controlled: this run equals the host without a penalty"


@dataclass(frozen=True, slots=True)
class Term:
    """What is added to the host's loss."""

    penalty: Penalty | None = None
    coefficient: float = 0.0


class Method:
    """Replay: the host as it is."""

    def __init__(self, config: Config, stream: Stream, judge: Judge, log: Log, choose: Choose) -> None:
        self.config, self.stream, self.judge = config, stream, judge
        self.log, self.choose = log, choose

    def term(self, update: Update, model: Model, replay: ReplayModel) -> Term:
        """What training at an update adds."""
        return Term()

    def control(self, replay: ReplayModel) -> dict[str, Any]:
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


class Penalized(Method):
    """MEOR and its controls: one code path, five variants."""

    _coefficient: float | None = None
    _begins = 0  # the update that decided it, once one has
    _asked = 0  # updates that were asked for it, none of which decided

    def term(self, update: Update, model: Model, replay: ReplayModel) -> Term:
        comparison = comparison_of(self.config, self.stream, update.number, update.replay.fact)
        self._ask(update.number, replay)
        coefficient = self._coefficient if update.number >= self._begins else None
        return Term(Penalty(comparison, model.backbone, beside=True), coefficient or 0.0)

    def control(self, replay: ReplayModel) -> dict[str, Any]:
        last = self.stream.updates[-1]
        self._ask(last, replay)
        config, coefficient = self.config, self._coefficient or 0.0
        controlled = coefficient > 0.0 and self._begins <= last
        told: dict[str, Any] = {
            "controlled": controlled,
            "rule": config.coefficient_rule if config.coefficient is None else "given",
            "coefficient": coefficient,
            "first_update": self._begins if controlled else None,
        }
        return {CONTROL: told if controlled else {**told, "reason": UNCONTROLLED}}

    def _ask(self, through: int, replay: ReplayModel) -> None:
        """Decide the coefficient, at the first update that has enough to decide it by (decision 34).

        A run that goes on asks the updates it has committed again: they answer as they did.
        """
        if self._coefficient is None and self.config.coefficient is not None:
            self._coefficient, self._begins = self.config.coefficient, self.config.coefficient_from
            self.log("coefficient", rule="given", coefficient=self._coefficient, update=self._begins)
        while self._coefficient is None and self._asked < through:
            self._asked += 1
            found = balanced(self.config, self.stream, self._asked, replay)
            self._log_balance(found)
            if not found.is_inactive:
                self._coefficient, self._begins = self._chosen(found), found.update

    def _log_balance(self, found: Balance) -> None:
        text = found.describe()
        if found.is_inactive:
            is_last = found.update == self.stream.updates[-1]
            text += f"; {UNCONTROLLED}" if is_last else "; it has no penalty, and the next update decides"
        made_from = {"inactive": found.is_inactive, "text": text, **asdict(found)}
        self.log("coefficient", rule="balance", **made_from)

    def _chosen(self, found: Balance) -> float:
        """What the rule makes of a balanced coefficient, recorded with what it was made from."""
        if self.config.coefficient_rule == "balance":
            return found.coefficient
        multiple, candidates = self.choose(found)
        coefficient = multiple * found.coefficient
        self.log(
            "coefficient",
            rule="validated",
            coefficient=coefficient,
            update=found.update,
            multiple=multiple,
            candidates=[asdict(one) for one in candidates],
            text=f"validated: {multiple:g} times the balanced coefficient, {coefficient:.6g}",
        )
        return coefficient

    def results(
        self, update: Update, model: Model, earlier: Callable[[int], Model], term: Term
    ) -> Mapping[str, bytes]:
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
        ranks = super().results(update, model, earlier, term)
        return {**ranks, RECORDS: records_bytes(records)}


class Calibrated(Method):
    """Persistent calibration: replay is trained, its scores are transformed by admission cohort."""

    def __init__(self, config: Config, stream: Stream, judge: Judge, log: Log, choose: Choose) -> None:
        super().__init__(config, stream, judge, log, choose)
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


def method_of(config: Config, stream: Stream, judge: Judge, log: Log, choose: Choose) -> Method:
    kinds = {"host": Method, "penalty": Penalized, "transform": Calibrated}
    return kinds[METHODS[config.method].kind](config, stream, judge, log, choose)


def balanced(config: Config, stream: Stream, number: int, replay: ReplayModel) -> Balance:
    """The coefficient of decision 34 at the pair's replay model after an update; no rank is looked at."""
    update = Update.of(stream, number, buffer_of(config, stream, number))
    if update.n_entities == update.n_old:
        return Balance(0.0, 0.0, 0.0, records=0, active=0, update=number)  # there is no row to balance by
    host, model = host_of(config), replay(number)
    training = Training.begin(host, model, update, refine_plan(config))
    penalty = Penalty(comparison_of(config, stream, number, update.replay.fact), model.backbone)
    steps = host.steps(0)
    losses = (host.loss(steps[index].batch) for index in range(len(steps)))
    return balance_penalty(penalty, training.entity, training.relation, losses)
