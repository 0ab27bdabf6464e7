from __future__ import annotations

import json
import pickle
import struct

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors.torch import save_file

from meor.errors import InputError, MeorError, ModelError
from meor.evaluation.external import load_external
from meor.evaluation.foreign_file import _first_line, read_array
from meor.stream.snapshot import build_stream
from meor.typing import Split

N, M, W = 4, 2, 6


@pytest.fixture
def stream():
    return build_stream(
        "s",
        [
            {Split.TRAIN: [("a b", "r", "c")]},
            {Split.TRAIN: [("d", "r", "c"), ("d", "r2", "é")]},
        ],
    )


class Files:
    """Sound files of the stream above, rows in reverse order; a test then spoils one."""

    def __init__(self, folder):
        self.folder = folder
        rng = np.random.default_rng(0)
        self.entity, self.relation = rng.normal(size=(N, W)), rng.normal(size=(M, W))
        self.labels = [("entity", i, label) for i, label in enumerate(["é", "d", "c", "a b"])]
        self.labels += [("relation", i, label) for i, label in enumerate(["r2", "r"])]

    def save(self, entity=None, relation=None, lines=None):
        np.save(self.folder / "E.npy", self.entity if entity is None else entity)
        np.save(self.folder / "R.npy", self.relation if relation is None else relation)
        chosen = self.labels if lines is None else lines
        text = "".join("\t".join(str(part) for part in line) + "\n" for line in chosen)
        (self.folder / "V.tsv").write_text(text, encoding="utf-8")

    def load(self, stream, backbone="complex", through=1):
        names = (self.folder / name for name in ("E.npy", "R.npy", "V.tsv"))
        return load_external(stream, backbone, *names, through=through)


@pytest.fixture
def files(tmp_path):
    made = Files(tmp_path)
    made.save()
    return made


def test_rows_come_in_the_streams_ids_as_float64(stream, files):
    model = files.load(stream)
    assert model.entity.dtype is torch.float64
    assert (model.entity.numpy() == files.entity[::-1]).all()
    assert (model.relation.numpy() == files.relation[::-1]).all()


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<c8", "bfloat16", "<f8"])
@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_rows_of_at_most_32_bits_stay_so_where_nobody_needs_them_wider(stream, files, dtype, form):
    narrow = torch.from_numpy(files.entity).to(torch.bfloat16) if dtype == "bfloat16" else None
    entity = files.entity.astype(dtype) if narrow is None else narrow.double().numpy().astype(np.float32)
    path = files.folder / f"e.{form}"
    if form == "npy":
        np.save(path, entity)
    else:
        kept = (
            narrow if narrow is not None else torch.from_numpy(entity.astype(entity.dtype.newbyteorder("=")))
        )
        safetensors.torch.save_file({"entity": kept.contiguous()}, path)
    relation = files.relation if dtype != "<c8" else np.concatenate([files.relation] * 2, axis=1)
    np.save(files.folder / "R.npy", relation)
    others = files.folder / "R.npy", files.folder / "V.tsv"
    kept_narrow = load_external(stream, "complex", path, *others, through=1, widen=False)
    widened = load_external(stream, "complex", path, *others, through=1)
    assert kept_narrow.entity.dtype is (torch.float64 if dtype == "<f8" else torch.float32)
    assert kept_narrow.relation.dtype is torch.float64  # so that scores are float64
    assert widened.entity.dtype is torch.float64
    assert torch.equal(kept_narrow.entity.double(), widened.entity)
    expected = np.concatenate([entity.real, entity.imag], axis=1) if dtype == "<c8" else entity
    assert (widened.entity.numpy() == expected.astype(np.float64)[::-1]).all()


def test_rows_admitted_later_may_be_missing_and_are_left_out(stream, files):
    base = [("entity", 0, "c"), ("entity", 1, "a b"), ("relation", 0, "r")]
    files.save(entity=files.entity[2:], relation=files.relation[1:], lines=base)
    assert files.load(stream, through=0).entity.shape == (2, W)
    with pytest.raises(ModelError, match="2 entity labels have no row, the first being 'd'"):
        files.load(stream, through=1)
    files.save()
    assert files.load(stream, through=0).entity.shape == (2, W)
    assert files.load(stream, through=0).relation.shape == (1, W)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_arrays_become_the_real_half_then_the_imaginary_half(stream, files, dtype):
    entity = (files.entity + 1j * files.entity[::-1]).astype(dtype)
    relation = (files.relation + 2j).astype(dtype)
    files.save(entity=entity, relation=relation)
    found = files.load(stream).entity.numpy()
    assert (found == np.concatenate([entity.real, entity.imag], axis=1)[::-1]).all()
    with pytest.raises(ModelError, match="distmult takes real"):
        files.load(stream, "distmult")


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f8", ">f4"])
def test_every_real_precision_and_byte_order_is_read(stream, files, dtype):
    files.save(entity=files.entity.astype(dtype), relation=np.asfortranarray(files.relation.astype(dtype)))
    assert (files.load(stream).entity.numpy() == files.entity.astype(dtype).astype(np.float64)[::-1]).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_safetensors_are_read_alone_or_by_name(stream, files, dtype):
    entity, relation = torch.from_numpy(files.entity).to(dtype), torch.from_numpy(files.relation).to(dtype)
    both, alone = files.folder / "m.safetensors", files.folder / "e.safetensors"
    safetensors.torch.save_file({"entity": entity, "relation": relation, "other": torch.ones(3)}, both)
    safetensors.torch.save_file({"weight": entity}, alone)
    for path in (both, alone):
        model = load_external(stream, "complex", path, both, files.folder / "V.tsv", through=1)
        assert (model.entity.numpy() == entity.to(torch.float64).numpy()[::-1]).all()
    safetensors.torch.save_file({"a": entity, "b": relation}, alone)
    with pytest.raises(ModelError, match="none of them called 'entity'"):
        load_external(stream, "complex", alone, both, files.folder / "V.tsv", through=1)


def test_without_a_vocabulary_rows_are_in_id_order(stream, files):
    both = files.folder / "m.safetensors"
    tensors = {"entity": torch.from_numpy(files.entity), "relation": torch.from_numpy(files.relation)}
    safetensors.torch.save_file(tensors, both)
    assert (load_external(stream, "complex", both, through=1).entity.numpy() == files.entity).all()
    assert load_external(stream, "complex", both, through=0).entity.shape == (2, W)
    tensors["entity"] = torch.zeros(N + 1, W)
    safetensors.torch.save_file(tensors, both)
    with pytest.raises(ModelError, match="5 entity rows"):
        load_external(stream, "complex", both, through=1)


def _spoiled(array, row, value):
    copy = array.copy()
    copy[row, 1] = value
    return copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entity": np.ones((N, 5)), "relation": np.ones((M, 5))}, "5 wide, an odd number"),
        ({"relation": np.ones((M, 8))}, "relation rows are 8 wide"),
        ({"entity": np.ones(N)}, r"shape \(4,\)"),
        ({"entity": np.ones((0, W))}, r"shape \(0, 6\)|not a readable"),
        ({"entity": np.ones((N, W), dtype=np.int64)}, "int64 values"),
        ({"entity": np.ones((N, W), dtype=bool)}, "bool values"),
        ({"entity": np.full((N, W), "x")}, "values"),
        ({"entity": np.zeros((N, W), dtype=[("x", "f8")])}, "values"),
        ({"entity": np.ones((N - 1, W))}, "entity row 3 is named"),
        ({"entity": np.ones((N + 1, W))}, "1 entity rows have no name"),
    ],
)
def test_arrays_that_do_not_fit_are_explained(stream, files, change, message):
    files.save(**change)
    with pytest.raises(ModelError, match=message):
        files.load(stream)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_no_number_is_named(stream, files, value):
    files.save(entity=_spoiled(files.entity, 1, value))
    with pytest.raises(
        ModelError, match=r"1 entity rows hold NaN or infinity, the first being row 1 \('d'\)"
    ):
        files.load(stream)
    files.save(relation=_spoiled(files.relation, 0, value))
    with pytest.raises(ModelError, match="relation rows hold NaN"):
        files.load(stream)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("entity", 0), "2 columns"),
        (("entity", 9, "x", "y"), "4 columns"),
        (("Entity", 9, "c"), "neither entity nor relation"),
        (("entity", "-1", "c"), "not a number"),
        (("entity", "1.0", "c"), "not a number"),
        (("entity", "٣", "c"), "not a number"),
        (("entity", "9" * 30, "c"), "not a number"),
        (("entity", 9, "nobody"), "has no entity 'nobody'"),
        (("relation", 9, "c"), "has no relation 'c'"),
        (("entity", 0, "c"), "entity row 0 was already named"),
        (("entity", 9, "c"), "'c' was already given on line 3"),
    ],
)
def test_a_faulty_vocabulary_line_is_named(stream, files, line, message):
    files.save(lines=[*files.labels, line])
    with pytest.raises(InputError, match=message) as error:
        files.load(stream)
    assert "line 7" in str(error.value)


def test_an_unknown_backbone_is_named(stream, files):
    with pytest.raises(ModelError, match="unknown backbone 'unknown'"):
        files.load(stream, "unknown")


class Trap:
    """What a pickle could do."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return open, (str(self.canary), "w")


def _header(text: str, data: bytes = b"") -> bytes:
    raw = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw + data


def _safetensors(header, data: bytes = b"", length: int | None = None) -> bytes:
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def _tensor(**changes):
    return {"entity": {"dtype": "F64", "shape": [N, W], "data_offsets": [0, N * W * 8], **changes}}


HOSTILE = {
    "nothing.npy": lambda _: b"",
    "text.npy": lambda _: b"1,2,3\n",
    "pickle.npy": lambda canary: pickle.dumps(Trap(canary)),
    "objects.npy": lambda canary: _header(
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps(Trap(canary))
    ),
    "huge.npy": lambda _: _header(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 9), }"
    ),
    "overflow.npy": lambda _: _header(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }"
    ),
    "negative.npy": lambda _: _header(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-4, 6), }", bytes(192)
    ),
    "short.npy": lambda _: _header("{'descr': '<f8', 'fortran_order': False, 'shape': (4, 6), }", bytes(100)),
    "code.npy": lambda canary: _header(f"open({str(canary)!r}, 'w')"),
    "zip.npy": lambda _: b"PK\x03\x04" + bytes(60),
    "nothing.safetensors": lambda _: b"",
    "pickle.safetensors": lambda canary: pickle.dumps(Trap(canary)),
    "header.safetensors": lambda _: _safetensors({}, length=2**63),
    "offsets.safetensors": lambda _: _safetensors(_tensor(data_offsets=[0, 10**12])),
    "shape.safetensors": lambda _: _safetensors(_tensor(shape=[N, W + 1]), bytes(N * W * 8)),
    "dtype.safetensors": lambda _: _safetensors(_tensor(dtype="PICKLE"), bytes(N * W * 8)),
    "overlap.safetensors": lambda _: _safetensors(
        _tensor() | {"relation": {"dtype": "F64", "shape": [N, W], "data_offsets": [8, N * W * 8 + 8]}},
        bytes(N * W * 8 + 8),
    ),
    "integers.safetensors": lambda _: _safetensors(_tensor(dtype="I64"), bytes(N * W * 8)),
    "arrays.npz": lambda _: b"PK\x03\x04",
    "weights.pt": lambda canary: pickle.dumps(Trap(canary)),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_array_file_is_a_typed_error_and_runs_nothing(stream, files, name):
    canary = files.folder / "canary"
    path = files.folder / name
    path.write_bytes(HOSTILE[name](canary))
    with pytest.raises(ModelError) as error:
        load_external(stream, "complex", path, files.folder / "R.npy", files.folder / "V.tsv", through=1)
    assert str(path) in str(error.value)
    assert not canary.exists()


def test_what_is_no_file_is_explained(files):
    for path in (files.folder, files.folder / "none.npy"):
        with pytest.raises(ModelError, match=r"is a directory|is not a file"):
            read_array(path, "entity")


@pytest.mark.parametrize("name", ["E.npy", "V.tsv"])
def test_damage_is_never_a_bare_exception(stream, files, name):
    rng = np.random.default_rng(0)
    sound = (files.folder / name).read_bytes()
    for _ in range(300):
        data = bytearray(sound)
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        (files.folder / name).write_bytes(
            data[: int(rng.integers(len(data)))] if rng.random() < 0.3 else data
        )
        try:
            model = files.load(stream)
        except MeorError:
            continue
        assert model.entity.isfinite().all()


def test_arrays_and_names_of_files_are_accepted_alike(stream, files):
    expected = files.load(stream)
    vocabulary = str(files.folder / "V.tsv")
    named = load_external(
        stream, "complex", str(files.folder / "E.npy"), files.relation, vocabulary, through=1
    )
    assert torch.equal(named.entity, expected.entity)
    assert torch.equal(named.relation, expected.relation)
    in_order = load_external(stream, "complex", files.entity[::-1], files.relation[::-1], through=1)
    assert torch.equal(in_order.relation, expected.relation)
    with pytest.raises(ModelError, match="the entity array"):
        load_external(stream, "complex", files.entity, files.relation[:, :4], through=1)


def test_the_first_line_of_a_reason_is_repeated_and_its_kind_where_there_is_none() -> None:
    assert _first_line(ValueError("one\ntwo")) == "one"
    assert _first_line(ValueError("x" * 300)) == "x" * 200
    assert _first_line(KeyError()) == "KeyError"


def test_a_tensor_that_is_alone_may_have_any_name_and_one_of_several_has_its_own(tmp_path) -> None:
    rows = np.arange(6, dtype=np.float64).reshape(3, 2)
    save_file({"weights": torch.from_numpy(rows)}, tmp_path / "alone.safetensors")
    two = {"a": torch.zeros(1, 1), "entity": torch.from_numpy(rows)}
    save_file(two, tmp_path / "two.safetensors")
    for name in ("alone", "two"):
        assert read_array(tmp_path / f"{name}.safetensors", "entity").tolist() == rows.tolist()


def test_a_tensor_is_mapped_and_not_copied(tmp_path) -> None:
    save_file({"entity": torch.ones(3, 2)}, tmp_path / "rows.safetensors")
    assert isinstance(read_array(tmp_path / "rows.safetensors", "entity"), np.memmap)
