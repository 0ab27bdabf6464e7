from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from meor.errors import ConfigError
from meor.run.config import Config
from meor.run.presets import PRESETS


def test_the_resolved_yaml_holds_every_setting_and_reads_back_to_the_same_config(tmp_path: Path) -> None:
    config = Config.gather(
        sets=["preset=paper", "base.epochs=7", "coefficient=1e-3", "penalty.epsilon=1e-12"]
    )
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml())
    assert Config.load(path) == config
    written = yaml.safe_load(config.to_yaml())
    unsaid = {"cap", "dial", "lift", "shrink", "unseen", "columns"}  # said where a run asks for them
    assert list(written) == [name for name in Config.model_fields if name not in unsaid]
    assert written["backbone"] == "complex"


def test_the_paper_preset_is_the_paper_to_the_letter() -> None:
    paper = Config(preset="paper", stream="ENTITY")
    assert (paper.refine.learning_rate, paper.refine.passes, paper.refine.order) == (1e-4, 1, "file")
    assert (paper.refine.newcomer_init, paper.refine.batch, paper.refine.negatives) == ("base", 2048, 10)
    assert (paper.refine.replay_size, paper.dim, paper.dtype) == (2048, 200, "float64")
    base = paper.base
    assert (base.learning_rate, base.batch, base.negatives, base.init_std) == (1e-4, 2048, 10, 0.05)
    assert (base.validate_every, base.patience) == (1, 3)
    penalty = paper.penalty
    assert (penalty.beta, penalty.draws, penalty.scale_sample) == (5.0, 4, 256)
    assert (penalty.mad_weight, penalty.epsilon, penalty.signature) == (0.1, 1e-8, "all")


KEY = "the key"


@pytest.mark.parametrize("given", ["flag", "set", "file"])
def test_the_former_name_of_the_host_alone_is_read_as_none(given: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(Config(stream="world", method="none").to_yaml().replace("method: none", "method: replay"))
    assert "method: replay" in path.read_text()
    config = {
        "flag": lambda: Config.gather(flags={"method": "replay"}),
        "set": lambda: Config.gather(sets=["method=replay"]),
        "file": lambda: Config.load(path),
    }[given]()
    assert config.method == "none"
    assert (config, config.host.name) == (Config(method="none"), "replay")
    assert "method: none" in config.to_yaml()


@pytest.mark.parametrize(
    ("given", "method"),
    [
        ({}, "cap+guard"),
        ({"backbone": "distmult"}, "cap+guard"),
        ({"backbone": "transe"}, "guard"),
        ({"host": "lkge"}, "none"),
        ({"host": "fine-tune", "backbone": "complex"}, "none"),
        ({"preset": "paper"}, "none"),
        ({"method": "meor"}, "meor"),
        ({"method": "none"}, "none"),
    ],
)
def test_a_run_that_names_no_method_has_the_one_that_fits_it(given: dict[str, str], method: str) -> None:
    assert Config.gather(flags=given).method == method


def test_practical_is_the_default_preset_and_a_given_value_wins_over_it() -> None:
    assert Config().preset == "practical"
    assert Config().refine.model_dump().items() >= PRESETS["practical"]["refine"].items()
    assert Config.gather(sets=["refine.passes=2"]).refine.passes == 2


def test_set_wins_over_flags_and_flags_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("seed: 1\nbackbone: transe\nbase:\n  epochs: 5\n  batch: 64\n")
    config = Config.gather(path, flags={"seed": 2, "backbone": None}, sets=["seed=3", "base.epochs=6"])
    assert (config.seed, config.backbone, config.base.epochs, config.base.batch) == (3, "transe", 6, 64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("base.epoch=3", "base.epochs"),
        ("refine.pases=2", "refine.passes"),
        ("epochs=3", "base.epochs"),
        ("bakbone=complex", "backbone"),
        ("backbone=complx", "complex"),
        ("preset=papr", "paper"),
        ("method=mero", "meor"),
        ("refine.order=permute", "permuted"),
        ("evaluation.split=tset", "test"),
        ("evaluation.sides=[head,teil]", "tail"),
        ("base=3", "base.epochs"),
        ("base.epochs=0", "greater than or equal to 1"),
        ("base.learning_rate=.nan", "finite"),
        ("base.learning_rate=inf", "finite"),
        ("coefficient=-1", "greater than or equal to 0"),
        ("seed=1.5", "seed"),
        ("evaluation.updates=[1, 1]", "twice"),
        ("evaluation.sample=-1", "greater than or equal to 0"),
        ("evaluation.sample=2.5", "valid integer"),
        ("evaluation.sample=all", "valid integer"),
        ("evaluation.sampel=5", "evaluation.sample"),
        ("base.epochs", "key=value"),
        ("base..epochs=3", "key=value"),
        ("base.epochs=[", "number"),
    ],
)
def test_a_wrong_setting_names_the_nearest_option_or_says_what_is_allowed(text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=r".+\..+\.") as caught:
        Config.gather(sets=[text])
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        (b"seed: 1\nbase:\n  epoch: 3\n", 3, "base.epochs"),
        (b"seed: 1\nseed: 2\n", 2, "twice"),
        (b"seed: 1\nbase: [1\n", None, "YAML"),
        (b"a: &x [1]\nb: *x\n", 2, "alias"),
        (b"- 1\n", 1, "mapping"),
        (b"seed: 1\n1: 2\n", 2, "word"),
        (b"seed: \xff\n", 1, "UTF-8"),
        (b"seed: !!python/object/apply:os.system ['true']\n", 1, "YAML"),
        (b"seed: 2020-13-45\n", None, "YAML"),
        (b"[" * 20000, None, "YAML"),
        (b"#" * (2 << 20), None, "64 KiB"),
    ],
)
def test_a_malformed_file_is_one_error_that_names_file_and_line(
    tmp_path: Path, content: bytes, line: int | None, expected: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(path) in str(caught.value)
    assert expected in str(caught.value)
    if line is not None:
        assert caught.value.line == line


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=200)
    | st.text(alphabet="abse:{}[]&*!-#\n \t'\"|>%@0123.", max_size=200).map(str.encode)
)
def test_any_bytes_are_a_config_or_a_config_error(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz.yaml"
        path.write_bytes(content)
        with contextlib.suppress(ConfigError):
            Config.load(path)


def test_the_fingerprint_knows_what_determines_results_and_nothing_else() -> None:
    config = Config()
    same = config.model_copy(update={"stream": "elsewhere/copy", "data_dir": "data", "preset": "paper"})
    assert config.fingerprint("hash") == same.fingerprint("hash")
    assert config.fingerprint("hash") != config.fingerprint("other")
    assert config.fingerprint("hash") != config.fingerprint("hash", "given base")
    for text in (
        "seed=1",
        "dim=8",
        "refine.passes=9",
        "method=meor",
        "coefficient=.1",
        "evaluation.sides=head",
    ):
        assert Config.gather(sets=[text]).fingerprint("hash") != config.fingerprint("hash"), text


def test_a_config_without_a_sample_keeps_the_hash_it_had_before_there_was_one() -> None:
    before = "9570cf307fa9e73a5ea648db053ac5b5292bd22d55cced1b978c6618546ecfec"
    then = [
        "method=none",
        "refine.learning_rate=0.01",
        "refine.passes=20",
    ]  # `practical` before updates stopped by themselves
    assert Config.gather(sets=then).fingerprint("hash") == before
    assert Config.gather(sets=[*then, "evaluation.sample=0"]).fingerprint("hash") == before
    assert "sample:" not in Config().to_yaml().replace("scale_sample:", "")


def test_a_sample_is_written_read_back_and_part_of_the_hash(tmp_path: Path) -> None:
    config = Config.gather(sets=["evaluation.sample=5"])
    assert config.fingerprint("hash") != Config().fingerprint("hash")
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert Config.load(tmp_path / "config.yaml").evaluation.sample == 5


def test_runs_share_a_base_whatever_their_method_host_and_refinement_are() -> None:
    config = Config()
    for text in ("method=meor", "refine.passes=9", "evaluation.split=valid", "coefficient=1"):
        other = Config.gather(sets=[text])
        assert other.base_fingerprint("prefix", {}) == config.base_fingerprint("prefix", {}), text
    for text in (
        "seed=1",
        "dim=8",
        "backbone=transe",
        "base.epochs=9",
        "dtype=float32",
        "evaluation.filter_splits=train",  # base stopping is judged by it
    ):
        other = Config.gather(sets=[text])
        assert other.base_fingerprint("prefix", {}) != config.base_fingerprint("prefix", {}), text


def test_every_backbone_is_a_setting() -> None:
    from meor.backbone import BACKBONES

    for name in BACKBONES:
        assert Config(backbone=name).backbone == name


LAUGHS = (
    "["
    + ", ".join(["&a0 [x, x, x]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))])
    + "]"
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (LAUGHS, "alias *a0"),
        ("*a", "alias *a"),
        ("[" * 60_000, "nested too deep"),
        ("{a: " * 17 + "1" + "}" * 17, "nested too deep"),
        ("x" * 70_000, "larger than 64 KiB"),
        ("[" + "1," * 40_000 + "]", "larger than 64 KiB"),
        ("!!python/object/apply:os.getcwd []", "cannot be read"),
        ("9" * 5000, "cannot be read"),
        (":".join(["59"] * 20_000), "cannot be read"),
        ("[" + "1," * 30_000 + "]", KEY),
        ("x" * 60_000, KEY),
    ],
    ids=[
        "laughs",
        "alias",
        "brackets",
        "mappings",
        "long",
        "list",
        "tag",
        "int",
        "60",
        "items",
        "word",
    ],
)
@pytest.mark.parametrize("key", ["dim", "evaluation.updates", "stream.x", "no_such"])
@pytest.mark.timeout(20)
def test_set_refuses_what_files_refuse_at_once_and_in_a_short_sentence(
    key: str, value: str, expected: str
) -> None:
    said = key.partition(".")[0] if expected == KEY else re.escape(expected)
    with pytest.raises(ConfigError, match=said) as caught:
        Config.gather(sets=[f"{key}={value}"])
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("key", [".".join("a" * 40_000), "." * 9, "a..b", ""])
def test_a_key_that_is_none_is_explained(key: str) -> None:
    with pytest.raises(ConfigError, match="is not key=value"):
        Config.gather(sets=[f"{key}=1"])


def test_a_number_that_python_cannot_print_is_refused_in_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("seed: 1\ndim: " + ":".join(["59"] * 10_000) + "\n")
    with pytest.raises(ConfigError, match="more than 64 bits"):
        Config.load(path)


def test_the_base_of_paper_is_validated_every_epoch_and_that_of_practical_every_ten() -> None:
    paper, practical = (Config(stream="ENTITY", preset=preset).base for preset in ("paper", "practical"))
    assert (paper.learning_rate, paper.validate_every, paper.patience) == (1e-4, 1, 3)
    assert (practical.learning_rate, practical.validate_every, practical.patience) == (1e-3, 10, 3)


def test_whatever_selects_sees_validation_facts_and_no_test_fact_as_filter() -> None:
    for asked, kept in (("[train, valid, test]", ("train", "valid")), ("train", ("train",)), ("test", ())):
        config = Config.gather(sets=[f"evaluation.filter_splits={asked}"]).for_selection()
        assert config.evaluation.split == ("valid",)
        assert config.evaluation.filter_splits == kept


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("cap.factor=abc", "cap.factor: 'abc' is neither a number above 0 nor two"),
        ("cap.factor=0", "cap.factor: 0 is neither"),
        ("cap.factor=[1, 2, 3]", "cap.factor: [1, 2, 3] is neither"),
        ("lift=-1", "lift: -1 is neither a number from 0 on nor two"),
        ("lift=[1]", "lift: [1] is neither"),
        ("shrink=nan", "shrink: 'nan' is neither"),
        ("base.init_std=abc", "base.init_std cannot be 'abc'. It should be a valid number"),
        ("base.init_std=abc", "or 'xavier'"),
    ],
)
def test_a_setting_of_several_kinds_is_named_once_with_all_of_them(given: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.gather(sets=["method=cap+guard", given])
    assert said in str(caught.value)
    assert "more" not in str(caught.value)


def test_two_numbers_are_read_as_two_sizes_of_an_update(tmp_path: Path) -> None:
    config = Config.gather(sets=["method=cap+guard", "cap.factor=[1.2, 1]", "lift=[0, 2]"])
    assert (config.cap.factor, config.lift) == ((1.2, 1.0), (0.0, 2.0))
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml())
    assert Config.load(path) == config
