"""Bar: hostile or damaged pickles run nothing, and each ends in a sentence."""

from __future__ import annotations

import builtins
import io
import os
import pickle
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.pykeen_models import SAVED

import meor
from meor.errors import ModelError
from meor.evaluation.inert_names import RefusedPickle
from meor.evaluation.inert_pickle import read_pickle

PLANTED = "PLANTED_BY_A_PICKLE"


class Attack:
    def __init__(self, call, *args) -> None:
        self.call, self.args = call, args

    def __reduce__(self):
        return self.call, self.args


def attacks() -> list[object]:
    """Objects whose unpickling would set an environment variable, write a file or start a process."""
    code = f"import os; os.environ[{PLANTED!r}] = 'yes'"
    return [
        Attack(exec, code),
        Attack(eval, f"__import__('os').environ.__setitem__({PLANTED!r}, 'yes')"),
        Attack(os.system, f"touch {PLANTED}"),
        Attack(subprocess.call, ["touch", PLANTED]),
        Attack(os.putenv, PLANTED, "yes"),
        Attack(getattr, os, "system"),
        Attack(builtins.__import__, "antigravity"),
        Attack(builtins.open, PLANTED, "w"),
        Attack(shutil.rmtree, "nowhere"),
        Attack(torch.load, PLANTED),
        Attack(torch.hub.load, "a", "b"),
        Attack(pickle.loads, b"."),
        Attack(np.load, PLANTED),
    ]


def archive(data: bytes, entries: dict[str, bytes] | None = None) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        for name, content in {"m/data.pkl": data, "m/byteorder": b"little", **(entries or {})}.items():
            target.writestr(name, content)
    return made.getvalue()


def pickled(thing: object, protocol: int) -> bytes:
    made = io.BytesIO()
    pickler = pickle.Pickler(made, protocol)
    pickler.dispatch_table = {}  # no module may be pickled by a helper
    try:
        pickler.dump(thing)
    except TypeError:  # a module inside: name it instead
        return b"cos\nsystem\n(S'touch " + PLANTED.encode() + b"'\ntR."
    return made.getvalue()


HAND_MADE = [
    b"cos\nsystem\n(S'touch x'\ntR.",
    b"(S'touch x'\nios\nsystem\n.",  # INST
    b"(cos\nsystem\nS'touch x'\no.",  # OBJ
    b"\x80\x02\x82\x01.",  # an extension
    b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R.",
    b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93\x8c\x08builtins\x8c\x04eval\x86R.",
    b"\x80\x04\x8c\x0dpykeen.models\x8c\x01M\x93)\x81}b.",  # admitted names, but no model
    b"\x80\x02cpykeen.x\ny\n)R.",
    b"\x80\x02ctorch.nn.modules.module\nos.system\n(X\x01\x00\x00\x00xtR.",
    b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b".",  # a byte array of 4 EiB
    b"\x80\x02r\xff\xff\xff\x7f.",  # a memo of two thousand million places
    b"\x80\x02X\xff\xff\xff\x7fa.",
    b"(" * 100_000 + b".",
    b"\x80\x02]" + b"2a" * 1000 + b".",
    b"\x80\x02)" + b"q\x00h\x00\x86" * 60 + b"}q\x01h\x00Ns.",
    b"",
    b".",
    b"N.",
    b"\x80\x02}.",
    b"\x80\x02]q\x00h\x00a.",
]


def damaged(rng: np.random.Generator, whole: bytes, pickle_at: tuple[int, int]) -> bytes:
    """A saved model with bytes changed, cut out or added, mostly in its pickle."""
    data = bytearray(whole)
    low, high = pickle_at if rng.random() < 0.7 else (0, len(data))
    kind = rng.integers(4)
    if kind == 0:
        return bytes(data[: rng.integers(len(data))])
    for _ in range(int(rng.integers(1, 20))):
        at = int(rng.integers(low, min(high, len(data))))
        if kind == 1:
            data[at] = int(rng.integers(256))
        elif kind == 2:
            del data[at : at + int(rng.integers(1, 30))]
        else:
            data[at:at] = rng.bytes(int(rng.integers(1, 30)))
    return bytes(data)


def cases(rng: np.random.Generator, count: int) -> list[bytes]:
    found = [archive(pickled(each, protocol)) for each in attacks() for protocol in (0, 2, 4, 5)]
    found += [pickled(each, 2) for each in attacks()]  # not even a zip file
    found += [archive(each) for each in HAND_MADE]
    whole = (SAVED / "complex" / "trained_model.pkl").read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith("data.pkl"))
        data, begin = opened.read(name), whole.index(opened.read(name))
        rest = {each: opened.read(each) for each in opened.namelist() if each != name}
    while len(found) < count:
        if rng.random() < 0.4:
            found.append(damaged(rng, whole, (begin, begin + len(data))))
        else:  # the checksum of the entry is right, so that the machine itself meets the damage
            root = name.removesuffix("data.pkl")
            broken = damaged(rng, data, (0, len(data)))
            found.append(archive(broken, {each.replace(root, "m/"): text for each, text in rest.items()}))
    return found


def refused(folder: Path, content: bytes) -> bool:
    """Refused with a sentence, or read as if it were whole: damage may lie where nobody looks."""
    (folder / "trained_model.pkl").write_bytes(content)
    try:
        found = meor.read_pykeen(folder)
    except ModelError as error:
        text = str(error)
        assert text.startswith(str(folder))
        assert text.endswith(".")
        assert "\n" not in text
        assert len(text) < 600
        return True
    intact = meor.read_pykeen(SAVED / "complex")
    assert np.array_equal(found.entity, intact.entity)
    assert np.array_equal(found.relation, intact.relation)
    assert found.backbone == intact.backbone
    return False


def try_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.chdir(tmp_path)
    folder = shutil.copytree(SAVED / "complex", tmp_path / "model")
    hostile = len(attacks()) * 5 + len(HAND_MADE)
    before = sorted(path.name for path in tmp_path.iterdir())
    outcomes = [refused(folder, content) for content in cases(np.random.default_rng(15), count)]
    assert all(outcomes[:hostile])
    assert len(outcomes) >= count
    assert np.mean(outcomes) > 0.8  # a changed byte of a name that nobody reads does no harm
    assert PLANTED not in os.environ
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_hostile_and_damaged_pickles_run_nothing_and_are_refused(tmp_path, monkeypatch) -> None:
    try_all(tmp_path, monkeypatch, 120)


@pytest.mark.long
def test_five_hundred_damaged_pickles_besides(tmp_path, monkeypatch) -> None:
    try_all(tmp_path, monkeypatch, 500 + len(attacks()) * 5 + len(HAND_MADE))


def test_the_attacks_would_work_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests above test something."""
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickled(attacks()[2], 2))
    assert (tmp_path / PLANTED).exists()


def test_names_stay_names() -> None:
    found = read_pickle(b"\x80\x04\x8c\x09pykeen.os\x8c\x06system\x93\x8c\x01x\x85R.")
    assert str(found.of) == "pykeen.os.system"
    assert found.args == ("x",)
    with pytest.raises(RefusedPickle, match=r"names os\.system"):
        read_pickle(b"cos\nsystem\n.")


def test_a_compressed_entry_is_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(SAVED / "complex", tmp_path / "model")
    with zipfile.ZipFile(folder / "trained_model.pkl", "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("m/data.pkl", b"N." + bytes(1000))
    with pytest.raises(ModelError, match="compressed"):
        meor.read_pykeen(folder)
