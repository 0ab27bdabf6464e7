"""A folder that PyKEEN saved: `trained_model.pkl` and `training_triples/`, read without PyKEEN.

Nothing is unpickled (`inert_pickle`). ComplEx, DistMult, TransE and RotatE are read; what would score
otherwise than our backbones (a normalizer, another norm, several embeddings) is refused with a sentence.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from meor.errors import ModelError
from meor.escape import terminal
from meor.evaluation.external import COMPLEX
from meor.evaluation.foreign_file import LONGEST_LINE
from meor.evaluation.inert_names import Made, Name
from meor.evaluation.labelled import Labelled, halves
from meor.evaluation.torch_file import TorchFile

Array = NDArray[Any]

MODEL, TRIPLES = "trained_model.pkl", "training_triples"
LABELS = {"entity": "entity_to_id.tsv.gz", "relation": "relation_to_id.tsv.gz"}
INTERACTIONS: Final = {
    "ComplExInteraction": "complex",
    "DistMultInteraction": "distmult",
    "TransEInteraction": "transe",
    "RotatEInteraction": "rotate",
}


def is_pykeen(folder: Path) -> bool:
    return (folder / MODEL).is_file()


def read_pykeen(folder: Path | str) -> Labelled:
    """The model of a folder, with its labels."""
    folder = Path(folder)
    if not is_pykeen(folder):
        raise ModelError(
            f"holds no {MODEL}", remedy="Name a folder of PyKEEN's save_to_directory", path=folder
        )
    file = TorchFile(folder / MODEL)
    backbone = _backbone(file)
    entity, relation = (_rows(file, kind, backbone) for kind in ("entity", "relation"))
    inverse = None
    if _state(file, file.content, "the model").get("use_inverse_triples"):
        relation, inverse = split_inverse(file.path, relation)
    if backbone == "rotate":
        for rows in (relation, inverse):
            require_turns(file.path, rows)
    names = {kind: folder / TRIPLES / name for kind, name in LABELS.items()}
    entities = read_labels(names["entity"], len(entity), "entity")
    relations = read_labels(names["relation"], len(relation), "relation")
    return Labelled(backbone, entity, relation, entities, relations, inverse, source=str(folder))


def split_inverse(path: Path | str, relation: Array) -> tuple[Array, Array]:
    """PyKEEN keeps relation i in row 2i and its inverse in row 2i + 1."""
    if len(relation) % 2:
        raise ModelError(
            f"{len(relation)} relation rows, an odd number, in a model with inverse triples",
            remedy="Save the model again",
            path=path,
        )
    return relation[0::2], relation[1::2]


def require_turns(path: Path | str, relation: Array | None) -> None:
    """Refuse relation rows of RotatE that stretch: ours only turn."""
    if relation is None:
        return
    modulus = np.hypot(*np.split(relation.astype(np.float64), 2, axis=1))
    if not np.allclose(modulus, 1, atol=1e-3):
        raise ModelError(
            "a relation of this RotatE has coordinates of another modulus than 1",
            remedy="Train it with PyKEEN's complex_normalize, which is its default",
            path=path,
        )


def _state(file: TorchFile, made: Any, what: str) -> dict[Any, Any]:
    if not isinstance(made, Made) or not isinstance(made.state, dict):
        raise file.fault(f"{what} is not where PyKEEN 1.11 keeps it")
    return made.state


def _module(file: TorchFile, made: Any, *names: str) -> Made:
    """A module inside a module inside the model."""
    for name in names:
        inside = _state(file, made, name).get("_modules")
        made = inside.get(name) if isinstance(inside, dict) else None
    if not isinstance(made, Made):
        raise file.fault(f"{'.'.join(names)} is not where PyKEEN 1.11 keeps it")
    return made


def _backbone(file: TorchFile) -> str:
    interaction = _module(file, file.content, "interaction")
    name = INTERACTIONS.get(interaction.of.name)
    if name is None:
        raise ModelError(
            f"the interaction {terminal(interaction.of.name[:80])} is none of {', '.join(INTERACTIONS)}",
            remedy="Load it with PyKEEN and audit it in Python: meor.from_pykeen(model, factory)",
            path=file.path,
        )
    if name == "transe":
        return transe_of(
            file.path, **{key: (interaction.state or {}).get(key) for key in ("p", "power_norm")}
        )
    return name


def transe_of(path: Path | str, p: Any, power_norm: Any) -> str:
    """TransE by the norm it uses."""
    if p not in (1, 2) or power_norm:
        raise ModelError(
            "this TransE uses neither the L1 norm nor the L2 norm, or a power of it",
            remedy="Train it with scoring_fct_norm 1 or 2 and power_norm=False",
            path=path,
        )
    return "transe" if p == 1 else "transe-l2"


def _rows(file: TorchFile, kind: str, backbone: str) -> Array:
    """The rows of a table in our layout. A constrainer needs no care: it was applied after every step."""
    what = f"{kind}_representations"
    several = _state(file, _module(file, file.content, what), what).get("_modules")
    if not isinstance(several, dict) or len(several) != 1:
        raise file.fault(f"the model has several {kind} embeddings, or none")
    (embedding,) = several.values()
    state = _state(file, embedding, what)
    if embedding.of != Name("pykeen.nn.representation", "Embedding") or state.get("normalizer") is not None:
        raise ModelError(
            f"its {kind} rows are no plain embedding: they are computed, or normalized when they are used",
            remedy="Load it with PyKEEN and audit it in Python: meor.from_pykeen(model, factory)",
            path=file.path,
        )
    table = _state(file, _module(file, embedding, "_embeddings"), "_embeddings").get("_parameters")
    rows = file.array(table.get("weight") if isinstance(table, dict) else None, f"the {kind} table")
    if rows.ndim != 2 or rows.dtype.kind != "f" or 0 in rows.shape:
        raise file.fault(f"the {kind} table is no table of numbers")
    if bool(state.get("is_complex")) != (backbone in COMPLEX) or (backbone in COMPLEX and rows.shape[1] % 2):
        raise file.fault(f"{backbone} with {'complex' if state.get('is_complex') else 'real'} {kind} rows")
    return halves(rows) if backbone in COMPLEX else rows


def read_labels(path: Path, count: int, kind: str) -> tuple[str, ...]:
    """The labels of rows 0..count-1, from lines `id TAB label` under a heading."""
    found: list[str | None] = [None] * count
    try:
        with gzip.open(path, "rb") as file:
            for line, row in enumerate(csv.reader(_lines(file, path), delimiter="\t"), start=1):
                if line > 1:
                    _place(found, row, path, line)
    except ModelError:
        raise
    except FileNotFoundError:
        raise _unlabelled(path, "is missing, so rows have no names") from None
    except Exception as error:  # gzip and csv fail in more ways than can be listed
        raise _unlabelled(path, f"cannot be read ({terminal(str(error)[:120])})") from None
    missing = found.count(None)
    if missing:
        raise _unlabelled(path, f"{missing} of {count} {kind} rows have no label")
    labels = tuple(label for label in found if label is not None)
    if len(set(labels)) < count:
        raise _unlabelled(path, "a label stands for two rows")
    return labels


def _place(found: list[str | None], row: list[str], path: Path, line: int) -> None:
    if len(row) != 2 or not (row[0].isascii() and row[0].isdecimal() and len(row[0]) <= 18):
        problem = "is not `id TAB label`"
    elif int(row[0]) >= len(found):
        problem = f"names row {row[0]}, but the model has {len(found)}"
    elif found[int(row[0])] is not None:
        problem = f"names row {row[0]} again"
    else:
        found[int(row[0])] = row[1]
        return
    raise ModelError(problem, remedy="Save the model again with its triples", path=path, line=line)


def _lines(file: Any, path: Path) -> Iterator[str]:
    """Lines of bounded length: a small gzip file can hold a line that fills the memory."""
    while raw := file.readline(LONGEST_LINE + 1):
        if len(raw) > LONGEST_LINE:
            raise _unlabelled(path, "a line of more than 1 MiB")
        yield raw.decode("utf-8")


def _unlabelled(path: Path, problem: str) -> ModelError:
    return ModelError(
        problem,
        remedy="Save the model with save_to_directory and a TriplesFactory that has labels",
        path=path,
    )
