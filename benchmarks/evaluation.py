"""Ranking: against PyKEEN's evaluator, the bare matrix product, torch.cdist, and bare scores in tiles."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from benchmarks.peer import factory, peer_model
from benchmarks.timing import alternate, peak_gib, processor_seconds, seconds
from meor.backbone import BACKBONES, Model
from meor.evaluation.rank import rank, rank_update
from meor.evaluation.tally import DEFAULT_MEMORY
from meor.random import generator
from meor.run.stopping import UpdateScore
from meor.stream.occurrence import EvaluationFilter, Occurrences, occurrences
from meor.stream.snapshot import Stream
from meor.typing import SIDES, Role, Split


def random_model(name: str, n_entities: int, n_relations: int, dim: int = 200) -> Model:
    """Tie-free seeded rows. Answers stand anywhere: the hardest case for screening and pruning."""
    rng = generator("benchmark", name)
    backbone = BACKBONES[name]
    width = backbone.width(dim)
    rows = [torch.from_numpy(rng.normal(0, 0.3, (n, width))) for n in (n_entities, n_relations)]
    return Model(backbone, *rows)


def against_pykeen(stream: Stream) -> dict[str, object]:
    """Filtered evaluation of snapshot 0's test facts in both directions, ComplEx 200, float64."""
    from pykeen.evaluation import RankBasedEvaluator

    model = random_model("complex", stream.entity_counts[0], stream.relation_counts[0])
    triples = factory(stream)
    peer = peer_model(triples, model)
    base = stream.snapshots[0]
    test, valid, train = (torch.from_numpy(np.array(part)) for part in (base.test, base.valid, base.train))
    found = {}

    def theirs() -> None:
        result = RankBasedEvaluator(filtered=True).evaluate(
            peer,
            mapped_triples=test,
            additional_filter_triples=[train, valid],
            batch_size=1024,
            use_tqdm=False,
        )
        found["pykeen"] = float(result.get_metric("both.realistic.inverse_harmonic_mean_rank"))

    def ours() -> None:
        ranks = rank_update(stream, model, 0)
        found["meor"] = float(np.mean([np.mean(1 / one.cur) for one in ranks]))

    ours()
    mine = [seconds(ours) for _ in range(5)]
    their_seconds = seconds(theirs)
    mine += [seconds(ours) for _ in range(5)]
    our_seconds = float(np.median(mine))
    return {
        "what": "filtered evaluation, ENTITY snapshot 0 test, both directions, ComplEx 200, float64",
        "meor_seconds": our_seconds,
        "pykeen_seconds": their_seconds,
        "times_faster": their_seconds / our_seconds,
        "mrr_difference": abs(found["meor"] - found["pykeen"]),
    }


def _historical(stream: Stream) -> list[Occurrences]:
    asked = [occurrences(stream, 4, side) for side in SIDES]
    return [one.select(one.role == Role.HISTORICAL) for one in asked]


def _even_sample(asked: list[Occurrences], size: int) -> list[Occurrences]:
    return [one.select(np.linspace(0, len(one) - 1, size).astype(np.int64)) for one in asked]


def against_product(stream: Stream, model: Model, label: str) -> dict[str, object]:
    """Both universes for all historical test facts at update 4 against the bare float64 product."""
    known = EvaluationFilter.through(stream, 4)
    n_old, n_cur = stream.entity_counts[3], stream.entity_counts[4]
    asked = _historical(stream)
    entity = model.entity[:n_cur].T.contiguous()
    tile_rows, tile_columns = 512, 2048
    buffer = torch.empty(tile_rows * tile_columns, dtype=torch.float64)
    queries = [model.query(one.anchor, one.relation, one.side) for one in asked]

    def product() -> None:
        for query in queries:
            for row in range(0, len(query), tile_rows):
                part = query[row : row + tile_rows]
                for column in range(0, n_cur, tile_columns):
                    block = entity[:, column : column + tile_columns]
                    shape = (len(part), block.shape[1])
                    torch.mm(part, block, out=buffer[: shape[0] * shape[1]].view(shape))

    def ours() -> None:
        for one in asked:
            rank(model, one, known, (n_old, n_cur))

    times = alternate({"product": product, "meor": ours})
    work = 2.0 * sum(map(len, asked)) * n_cur * model.entity.shape[1]
    return {
        "what": f"both universes, ENTITY update 4, {sum(map(len, asked)):,} queries, ComplEx 200, {label}",
        "meor_seconds": times["meor"],
        "product_seconds": times["product"],
        "ratio_to_product": times["meor"] / times["product"],
        "product_gflops": work / times["product"] / 1e9,
        "peak_gib": peak_gib(),
    }


def against_cdist(stream: Stream, model: Model, label: str, sample: int = 4096) -> dict[str, object]:
    """TransE (L1) on the same job; cdist is timed on an even sample of queries and scaled up."""
    known = EvaluationFilter.through(stream, 4)
    n_old, n_cur = stream.entity_counts[3], stream.entity_counts[4]
    asked = _historical(stream)
    few = _even_sample(asked, sample)

    def cdist() -> None:
        for one in few:
            query = model.query(one.anchor, one.relation, one.side)
            answer = torch.from_numpy(one.answer)
            for row in range(0, len(query), 512):
                distance = torch.cdist(query[row : row + 512], model.entity[:n_cur], p=1.0)
                own = distance.gather(1, answer[row : row + 512, None])
                (distance < own).sum(1)

    def ours() -> None:
        for one in asked:
            rank(model, one, known, (n_old, n_cur))

    times = alternate({"cdist": cdist, "meor": ours}, repeats=2)
    scaled = times["cdist"] * len(asked[0]) / sample
    elements = sum(map(len, asked)) * n_cur * model.entity.shape[1]
    return {
        "what": f"both universes, ENTITY update 4, TransE 200 (L1), {label}",
        "meor_seconds": times["meor"],
        "cdist_seconds_scaled": scaled,
        "times_faster": scaled / times["meor"],
        "coordinates_per_second": elements / times["meor"],
    }


def against_bare_scores(stream: Stream, model: Model, sample: int = 2048) -> dict[str, object]:
    """The path of any score function: both universes of update 1 against the same scores and nothing else."""
    known = EvaluationFilter.through(stream, 1)
    n_old, n_cur = stream.entity_counts[0], stream.entity_counts[1]
    asked = _even_sample([occurrences(stream, 1, side) for side in SIDES], sample)
    queries = [model.query(one.anchor, one.relation, one.side) for one in asked]

    def bare() -> None:
        for query in queries:
            for row in range(0, len(query), 512):
                for column in range(0, n_cur, 2048):
                    candidates = model.entity[column : min(column + 2048, n_cur)]
                    model.backbone.compare_all(query[row : row + 512], candidates)

    def ours() -> None:
        for one in asked:
            rank(model, one, known, (n_old, n_cur))

    times = alternate({"bare": bare, "meor": ours}, clock=processor_seconds)
    name, width = model.backbone.name, model.entity.shape[1]
    return {
        "what": f"both universes, ENTITY update 1, {sum(map(len, asked)):,} queries, {name}, width {width}, "
        "processor seconds on all threads",
        "meor_seconds": times["meor"],
        "bare_seconds": times["bare"],
        "ratio_to_bare_scores": times["meor"] / times["bare"],
    }


def kept_against_anew(stream: Stream) -> dict[str, object]:
    """A validation for stopping at ENTITY's update 4, after the first: old rows stand still, or may move."""
    model = random_model("complex", stream.entity_counts[4], stream.relation_counts[4])
    selection = (Split.TRAIN, Split.VALID)
    jobs = {
        name: partial(UpdateScore(stream, 4, selection, DEFAULT_MEMORY, frozen), model)
        for name, frozen in {"kept": True, "anew": False}.items()
    }
    times = alternate(jobs, repeats=9, clock=processor_seconds)
    return {
        "what": "a validation for stopping, ENTITY update 4, ComplEx 200, random rows, processor seconds",
        "kept_seconds": times["kept"],
        "anew_seconds": times["anew"],
        "ratio_to_anew": times["kept"] / times["anew"],
    }
