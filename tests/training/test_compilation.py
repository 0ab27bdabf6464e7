"""Code that was compiled in this process and code that was loaded give the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DIGESTS = """
import hashlib
import numpy as np
import torch
from meor.backbone import BACKBONES
from meor.training.adam import Adam, Longest
from meor.training.loss import Batch, Embedding, link_loss
from meor.training.margin import items_of, margin_loss

def digest(*tensors):
    return hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in tensors)).hexdigest()

rng = np.random.default_rng(0)
fact = np.stack([rng.integers(300, size=200), rng.integers(9, size=200), rng.integers(300, size=200)], 1)
negative, replaced = rng.integers(300, size=(200, 10)), rng.integers(2, size=(200, 10)).astype(np.int8)
for name, backbone in BACKBONES.items():
    if backbone.fused_form is None:
        continue  # nothing of it is compiled
    width = backbone.width(100)
    entity = Embedding.of(torch.from_numpy(0.1 * rng.normal(size=(300, width))), 0)
    columns = backbone.relation_columns(width)
    relation = Embedding.of(torch.from_numpy(0.1 * rng.normal(size=(9, columns))), 0)
    adam = Adam({"entity": entity.trained}, 0.1, longest={"entity": Longest(np.full(300, 1.0))})
    for step in range(2):
        adam.zero_grad()
        loss = link_loss(backbone, entity, relation, Batch(fact, negative, replaced))
        loss.backward()
        gradient = digest(entity.trained.grad, relation.trained.grad)
        adam.step()
        print(name, loss.item().hex(), gradient, digest(entity.data))
relation = Embedding.of(torch.from_numpy(0.1 * rng.normal(size=(9, 2 * entity.data.shape[1]))), 0)
items = Batch(items_of(fact), np.repeat(negative, 2, 0), np.repeat(replaced, 2, 0))
loss = margin_loss(entity, relation, items, divisor=1.0)
loss.backward()
print("margin", loss.item().hex(), digest(entity.trained.grad, relation.trained.grad))
"""


def test_the_first_process_of_a_machine_gets_the_bits_of_all_later_ones(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    compiled, loaded = (
        subprocess.run(
            [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )
    assert compiled == loaded
    assert len(loaded.splitlines()) == 7
