"""Small PyKEEN models of the ring, trained for two epochs; needs PyKEEN (extra `pykeen`).

`python -m tests.pykeen_models` saves them with some of their scores in tests/evaluation/pykeen, for the tests
that read such folders where PyKEEN is not installed.
"""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.tiny_run import tiny_stream

from meor.stream.snapshot import Stream

SAVED = Path(__file__).parent / "evaluation" / "pykeen"
NAMES = ("ComplEx", "DistMult", "TransE", "RotatE")
CASES = [(name, inverse) for name in NAMES for inverse in (False, True)]
FOLDERS = {(name, inverse): f"{name.lower()}{'-inverse' if inverse else ''}" for name, inverse in CASES}


def labelled(stream: Stream, facts: np.ndarray) -> np.ndarray:
    entity, relation = stream.entities.label, stream.relations.label
    return np.array([(entity(int(h)), relation(int(r)), entity(int(t))) for h, r, t in facts])


def trained(name: str, inverse: bool, stream: Stream, **options: Any) -> tuple[Any, Any]:
    """A model and its factory."""
    logging.getLogger("pykeen").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    from pykeen.models import model_resolver
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import TriplesFactory

    facts = np.concatenate([snapshot.train for snapshot in stream.snapshots])
    factory = TriplesFactory.from_labeled_triples(labelled(stream, facts), create_inverse_triples=inverse)
    options = {"embedding_dim": 6, **options}
    model = model_resolver.make(name, triples_factory=factory, random_seed=3, **options)
    optimizer = torch.optim.Adam(model.get_grad_params(), lr=0.05)
    loop = SLCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
    loop.train(triples_factory=factory, num_epochs=2, batch_size=64, use_tqdm=False, use_tqdm_batch=False)
    return model.eval(), factory


def save(model: Any, factory: Any, folder: Path) -> None:
    """What `PipelineResult.save_to_directory` writes of a model and its triples."""
    torch.save(model, folder / "trained_model.pkl", pickle_protocol=5)
    factory.to_path_binary(folder / "training_triples")


def scores(model: Any, factory: Any, stream: Stream) -> dict[str, Any]:
    """PyKEEN's scores of some queries against every entity of the stream, in the stream's order."""
    fact = stream.snapshots[1].train[:5]
    entity = [factory.entity_to_id[label] for label in stream.entities.labels]
    h, r, t = (
        torch.tensor([ids[label] for label in column])
        for ids, column in zip(
            (factory.entity_to_id, factory.relation_to_id, factory.entity_to_id),
            labelled(stream, fact).T,
            strict=True,
        )
    )
    with torch.no_grad():
        tails, heads = model.predict_t(torch.stack([h, r], 1)), model.predict_h(torch.stack([r, t], 1))
    return {"fact": fact.tolist(), "tail": tails[:, entity].tolist(), "head": heads[:, entity].tolist()}


def main() -> None:
    stream = tiny_stream()
    for (name, inverse), folder in FOLDERS.items():
        target = SAVED / folder
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        model, factory = trained(name, inverse, stream)
        save(model, factory, target)
        (target / "training_triples" / "numeric_triples.tsv.gz").unlink()  # nobody reads it
        (target / "scores.json").write_text(json.dumps(scores(model, factory, stream)))


if __name__ == "__main__":
    main()
