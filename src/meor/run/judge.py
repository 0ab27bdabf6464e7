"""What a run says about its models: validation for stopping, ranks at each update, endpoints at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from meor.backbone import Model
from meor.evaluation.endpoints import cell_keys, endpoints, measure, to_json
from meor.evaluation.rank import Ranks, Rules, rank_update, rank_update_incrementally
from meor.evaluation.ranks_file import read_ranks
from meor.run.config import Config
from meor.run.folder import RunFolder
from meor.run.layout import RANKS, update_name
from meor.run.stopping import SnapshotScore, UpdateScore
from meor.stream.snapshot import Stream
from meor.training.host import Host, Update, Validation
from meor.training.refine import Validate
from meor.typing import Side, Split

BySplit = Mapping[Split, tuple[Ranks, ...]]


class Judge:
    """Reads committed ranks and makes the next ones."""

    def __init__(self, folder: RunFolder, config: Config, stream: Stream, host: Host, memory: int) -> None:
        self.folder, self.stream, self.host, self.memory = folder, stream, host, memory
        chosen = config.evaluation
        self.splits = [Split(name) for name in chosen.split]
        self.sides = [Side[name.upper()] for name in chosen.sides]
        self.filter_splits = [Split(name) for name in chosen.filter_splits]
        self.selection_filter = [Split(name) for name in chosen.selection_filter]
        self.sample, self.stops = chosen.sample, config.refine.validate_steps > 0
        self.updates = list(stream.updates) if chosen.updates is None else sorted(chosen.updates)
        self._made: dict[int, BySplit] = {}

    def base_stopping(self) -> Validate | None:
        """What stops base training; None where there is nothing to judge by."""
        if self.host.validation is not None:
            return self._by_snapshot(self.host.validation, 0)
        return self.validation_mrr if len(self.stream.snapshots[0].valid) else None

    def _by_snapshot(self, by: Validation, update: int) -> SnapshotScore | None:
        score = SnapshotScore(self.stream, update, by, self.memory)
        return score if score.can_judge else None

    def validation_mrr(self, model: Model) -> float:
        """Filtered MRR on all validation facts of snapshot 0, both sides (decision 15)."""
        ranks = rank_update(
            self.stream,
            model,
            0,
            split=Split.VALID,
            memory=self.memory,
            rules=Rules(filter_splits=tuple(self.selection_filter)),
        )
        return measure(np.concatenate([each.cur for each in ranks]))

    def stopping(self, update: int) -> Validate | None:
        """What stops the training of an update; None if it makes all its passes, or cannot be judged."""
        if self.host.validation is not None:
            return self._by_snapshot(self.host.validation, update)
        if not self.stops:
            return None
        chosen = tuple(self.selection_filter)
        score = UpdateScore(self.stream, update, chosen, self.memory, self._freezes_old_rows(update))
        return score if score.can_judge else None

    def ranks(self, update: int, model: Model) -> BySplit:
        """The ranks of an update in every chosen split; empty where the update is not to be evaluated."""
        if update not in self.updates:
            return {}
        previous = self.committed(update - 1) if self._freezes_old_rows(update) else {}
        found = {split: self._of_split(update, model, split, previous) for split in self.splits}
        self._made[update] = found
        return found

    def committed(self, update: int) -> BySplit:
        """The ranks in the file of an update; not read again where this process made them."""
        if update in self._made:
            return self._made[update]
        name = f"{update_name(update)}/{RANKS}"
        if name not in self.folder.manifest["sha256"]:
            return {}
        return read_ranks(self.folder.path / name, self.folder.files.read(name))

    def endpoints(self) -> dict[str, Any]:
        """The content of endpoints.json, from the committed ranks."""
        cells = cell_keys(self.updates, self.sides)
        committed = [self.committed(update) for update in self.updates]
        found = {
            split.value: endpoints(
                [each for ranks in committed for each in ranks.get(split, ())], cells=cells
            )
            for split in self.splits
        }
        return to_json(found)

    def _of_split(self, update: int, model: Model, split: Split, previous: BySplit) -> tuple[Ranks, ...]:
        last, rules = previous.get(split, ()), Rules(filter_splits=tuple(self._filter(split)))
        if [each.occurrences.side for each in last] == self.sides:
            return rank_update_incrementally(
                self.stream,
                model,
                update,
                last,
                split=split,
                rules=rules,
                sample=self.sample,
                memory=self.memory,
            )
        return rank_update(
            self.stream,
            model,
            update,
            split=split,
            sides=self.sides,
            rules=rules,
            sample=self.sample,
            memory=self.memory,
        )

    def _filter(self, split: Split) -> list[Split]:
        """Validation facts are there to choose by, so no test fact helps to rank them (decision 15)."""
        return self.selection_filter if split is Split.VALID else self.filter_splits

    def _freezes_old_rows(self, update: int) -> bool:
        """Ranks carry over only where neither an old entity nor an old relation moves."""
        coming = Update.of(self.stream, update)
        return self.host.first_rows(coming) == (coming.n_old, coming.m_old)
