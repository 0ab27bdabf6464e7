"""PyKEEN's rank-based evaluator in both universes: every model is asked for its scores once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from pykeen.evaluation import RankBasedEvaluator, RankBasedMetricResults
from pykeen.evaluation.evaluator import MetricResults
from pykeen.evaluation.rank_based_evaluator import _iter_ranks
from pykeen.evaluation.ranks import Ranks
from torch import Tensor

from meor.errors import InputError
from meor.typing import Side

ALL, OLD, CUR, TARGET, QUERY, LOST = "all", "old", "cur", "target_newcomer", "query_newcomer", "lost"
SHORT: Final = {"H_cur": f"{CUR}.mrr", "H_old": f"{OLD}.mrr", "D_MCI": f"{LOST}.mrr"}
"""What the paper calls them: facts between old entities, both sides."""
LOSSES: Final = ("inverse_harmonic_mean_rank", "hits_at_")


class MeorMetricKey(NamedTuple):
    """Which facts and candidates, and PyKEEN's key."""

    universe: str
    side: str
    rank_type: str
    metric: str


class MeorMetricResults(MetricResults[MeorMetricKey]):
    """PyKEEN's metrics under the names of universes.

    `all` (the default): every fact among all entities, as PyKEEN has it. `cur` and `old`: facts between old
    entities, among all and among the old ones; `lost` is `old` minus `cur`. `target_newcomer`: the answer is
    a newcomer; `query_newcomer`: the other end is.
    """

    metrics = RankBasedMetricResults.metrics

    @classmethod
    def key_from_string(cls, s: str | None) -> MeorMetricKey:
        name = SHORT.get(s or "", s)
        universe, _, rest = (name or "").partition(".")
        if universe in (ALL, OLD, CUR, TARGET, QUERY, LOST):
            return MeorMetricKey(universe, *RankBasedMetricResults.key_from_string(rest or None))
        return MeorMetricKey(ALL, *RankBasedMetricResults.key_from_string(name))


@dataclass(slots=True)
class _Found:
    """Ranks of some of the facts, as PyKEEN's aggregation wants them."""

    ranks: dict[tuple[str, str], list[Any]] = field(default_factory=lambda: defaultdict(list))
    candidates: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))

    def add(self, target: str, true_scores: Tensor, scores: Tensor) -> None:
        if len(scores):
            found = Ranks.from_scores(true_score=true_scores, all_scores=scores)
            for kind, rank in found.items():
                self.ranks[target, kind].append(rank.cpu().numpy())
            self.candidates[target].append(found.number_of_options.cpu().numpy())

    def metrics(self, metrics: Any) -> Iterator[tuple[tuple[str, str, str], float]]:
        if self.candidates:
            packs = list(_iter_ranks(self.ranks, self.candidates))
            yield from RankBasedMetricResults.from_ranks(metrics, packs).data.items()


class MeorEvaluator(RankBasedEvaluator):
    """`pipeline(evaluator="meor", evaluator_kwargs={"newcomers": ids})`, in the ids of the factory."""

    metric_result_cls = MeorMetricResults

    def __init__(self, newcomers: Collection[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not self.filtered:
            raise InputError("ranks of both universes are filtered ones", remedy="Leave filtered=False out")
        self.newcomers = torch.as_tensor(np.unique(np.asarray(list(newcomers), np.int64)))
        self._found: dict[str, _Found] = defaultdict(_Found)
        self._columns: Tensor | None = None

    def evaluate(self, *args: Any, restrict_entities_to: Collection[int] | None = None, **kwargs: Any) -> Any:
        """As in PyKEEN; with `restrict_entities_to`, these are all candidates there are."""
        self._columns = None if restrict_entities_to is None else torch.as_tensor(list(restrict_entities_to))
        return super().evaluate(*args, restrict_entities_to=restrict_entities_to, **kwargs)

    def process_scores_(
        self,
        hrt_batch: Tensor,
        target: str,
        scores: Tensor,
        true_scores: Tensor | None = None,
        dense_positive_mask: Tensor | None = None,
    ) -> None:
        super().process_scores_(hrt_batch, target, scores, true_scores, dense_positive_mask)  # type: ignore[arg-type]
        assert true_scores is not None  # noqa: S101  (the parent has refused that)
        device = scores.device
        columns = torch.arange(scores.shape[1]) if self._columns is None else self._columns
        old = ~torch.isin(columns, self.newcomers).to(device)
        side = Side.of(target)
        answer, anchor = (
            torch.isin(hrt_batch[:, column], self.newcomers.to(device))
            for column in (side.answer_column, side.anchor_column)
        )
        among = {CUR: ~answer & ~anchor, TARGET: answer, QUERY: anchor & ~answer}
        for name, chosen in among.items():
            self._found[name].add(target, true_scores[chosen], scores[chosen])
        settled = among[CUR]
        self._found[OLD].add(target, true_scores[settled], scores[settled][:, old])

    def clear(self) -> None:
        super().clear()
        self._found.clear()

    def finalize(self) -> Any:
        found = {name: dict(each.metrics(self.metrics)) for name, each in self._found.items()}
        lost = {key: found[OLD][key] - found[CUR][key] for key in found.get(OLD, {}) if _adds_up(key)}
        every = {ALL: super().finalize().data, **found, LOST: lost}
        if self.clear_on_finalize:
            self.clear()
        return MeorMetricResults(
            {MeorMetricKey(name, *key): value for name, data in every.items() for key, value in data.items()}
        )


def _adds_up(key: tuple[str, ...]) -> bool:
    """Metrics of which larger is better and whose difference is a loss."""
    return key[-1].startswith(LOSSES)
