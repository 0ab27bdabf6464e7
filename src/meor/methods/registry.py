"""One record per method. Settings, help, tables, glossary and marks all read it: there is no second list.

Nothing here imports torch, so that help and settings are quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from meor.errors import ConfigError

if TYPE_CHECKING:
    from meor.methods.penalty import Penalty

Aggregate = Literal["smooth", "max"]
Reference = Literal["matched", "role"]
Assignment = Literal["own", "shuffled", "values"]


@dataclass(frozen=True, slots=True)
class Variant:
    """The aggregate, which old entities are the reference, whose they are, and if it is subtracted."""

    aggregate: Aggregate  # U_beta or the largest gap
    reference: Reference  # nested keys, or the role alone
    assignment: Assignment  # own references, those of another occurrence, or another's mean reference
    centered: bool  # is the mean old reference subtracted?


MEOR = Variant(aggregate="smooth", reference="matched", assignment="own", centered=True)
"""The paper's penalty; its controls differ from it in one field each."""
MMR = replace(MEOR, aggregate="max")
UOR = replace(MEOR, reference="role")
SHUFFLED = replace(MEOR, assignment="shuffled")
SHUFFLED_VALUES = replace(MEOR, assignment="values")
UNCENTERED = replace(MEOR, centered=False)

BySize = float | tuple[float, float]
"""A number; or two, at a small update and at a large one."""


def at_size(value: BySize, share: float) -> float:
    """On the line between the two, at an update of this share of a large one."""
    small, large = value if isinstance(value, tuple) else (value, value)
    return small + (large - small) * share


Kind = Literal["host", "penalty", "transform"]
"""The host alone; a penalty while training; a transform of scores after training."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method, and all that is said about it."""

    name: str
    label: str  # in tables
    sentence: str  # what it does
    kind: Kind = "penalty"
    variant: Variant | None = None  # how a penalty compares replayed occurrences; its records follow it
    build: Callable[..., Penalty] | None = None  # a subclass of `Penalty` that looks elsewhere
    capped: bool = False  # norms of newcomers are capped as well (`cap`)
    coefficient: float | None = None  # its own: no rule decides it
    lift: BySize = 0.0  # how much higher facts are to score beside its penalty
    shrink: BySize = 0.0  # and what the cubes of their rows' coordinates cost
    isolates: str = ""  # the property of MEOR that a comparison with this method isolates
    short: str = ""  # label where there is little room
    spelled: str = ""  # the words that an abbreviated label stands for

    @property
    def start(self) -> str:
        """The method of the pair's run that this one starts from and is balanced against."""
        return CAP if self.capped and self.coefficient is None else NONE

    @property
    def brief(self) -> str:
        return self.short or self.label


NONE = "none"
"""The host alone. Every other method of a pair is compared with it and starts from it."""
CAP = "cap"
CAPS = "scales a newcomer's row back to a norm that its degree suggests, after each step."


CAP_FACTOR, CAP_GROWTH = (1.52, 0.9), 1.15
"""How tight a cap is at a small update, and at one that brings as many entities as snapshot 0 has; and how
much it loosens from update to update: results/default."""
DEFAULT, UNCAPPED = f"{CAP}+guard", "guard"
"""What a run without a method uses, and what it uses where a norm is no scale of scores: results/default."""

_FORMER = {"replay": NONE}  # `replay` is a host
METHODS: dict[str, Method] = {}
"""Methods by name, in the order of tables and figures."""


def current_name(name: str) -> str:
    """The name of a method today: settings, folders and rows of earlier versions are read by it."""
    return _FORMER.get(name, name)


def former_name(name: str) -> str:
    """The name of a method in what earlier versions wrote."""
    return next((former for former, now in _FORMER.items() if now == name), name)


def register(method: Method) -> Method:
    """Make a method known everywhere: settings, studies, tables, reports."""
    if method.name in METHODS:
        raise ConfigError(f"there is a method {method.name} already", remedy="Choose another name")
    if (method.kind == "penalty") != (method.variant is not None or method.build is not None):
        raise ConfigError(
            f"the method {method.name} is a {method.kind}",
            remedy="A penalty has a variant or builds its own",
        )
    METHODS[method.name] = method
    return method


def with_cap(name: str) -> str:
    """The name of a method with the norms of its newcomers capped as well."""
    return CAP if name == NONE else f"{CAP}+{name}"


def capped(method: Method) -> Method:
    """The same method, with the norms of its newcomers capped as well."""
    return replace(
        method,
        name=with_cap(method.name),
        label="Cap" if method.name == NONE else f"Cap + {method.label}",
        short="Cap" if method.name == NONE else f"Cap + {method.brief}",
        sentence=CAPS if method.name == NONE else f"{CAPS[:-1]}; and {method.sentence}",
        capped=True,
        isolates="",
    )


def penalties() -> dict[str, Variant]:
    """The variants of all methods that add a penalty, by name; each is there once, without a cap."""
    plain = (method for method in METHODS.values() if not method.capped)
    return {method.name: method.variant for method in plain if method.variant is not None}


def needs_coefficient(name: str) -> bool:
    """Does it add a penalty whose coefficient has to be decided? Those with one of their own do not."""
    return name in METHODS and METHODS[name].kind == "penalty" and METHODS[name].coefficient is None


def method_label(name: str) -> str:
    return METHODS[name].label if name in METHODS else name


register(
    Method(
        NONE,
        "Host alone",
        "the host as it is: no penalty, and no transform of its scores.",
        kind="host",
    )
)
register(
    Method(
        "calibration",
        "Persistent calibration",
        "trains nothing more; transforms the scores of the host alone by admission cohort, relation and "
        "side, as fitted on validation facts.",
        kind="transform",
        short="Calibration",
    )
)
register(
    Method(
        "mmr",
        "MMR",
        "MEOR with the largest gap above the answer in place of the smooth mean of all gaps.",
        variant=MMR,
        isolates="Smooth tail aggregation",
        spelled="Matched Maximum Regularizer",
    )
)
register(
    Method(
        "uor",
        "UOR",
        "MEOR with old entities of the same role as reference, not matched by degree and relations.",
        variant=UOR,
        isolates="Structural matching",
        spelled="Unmatched Old Regularizer",
    )
)
register(
    Method(
        "shuffled",
        "Shuffled",
        "MEOR with the matched references of another query.",
        variant=SHUFFLED,
        isolates="Query-specific assignment",
    )
)
register(
    Method(
        "uncentered",
        "Uncentered",
        "MEOR without a reference: all that newcomers press with is penalised.",
        variant=UNCENTERED,
        isolates="Old-reference centering",
    )
)
register(
    Method(
        "meor",
        "MEOR",
        "penalises what newcomers press on the answer of a replayed query beyond structurally matched old "
        "entities: the squared excess, and nothing below it.",
        variant=MEOR,
        spelled="Matched Excess-Outranker Regularization",
    )
)
register(
    Method(
        "shuffled-values",
        "Shuffled values",
        "MEOR with the mean reference of another query subtracted, as that query has it.",
        variant=SHUFFLED_VALUES,
        isolates="Query-specific reference values",
    )
)


def _probe(*told: Any) -> Penalty:
    from meor.methods.probe import Probe  # imports torch

    return Probe(*told)


register(
    Method(
        "probe",
        "Probe",
        "penalises the strongest newcomer above what the old graph would answer, at questions of old facts "
        "beyond the replayed ones.",
        build=_probe,
    )
)
register(
    Method(
        "guard",
        "Guard",
        "penalises as the probe does, with a coefficient of its own: nothing has to be tried first.",
        build=_probe,
        coefficient=0.01,
    )
)

for _method in tuple(METHODS.values()):
    register(capped(_method))

# What a cap keeps short may be held down more, if it is also lifted more where it belongs. What a cube costs
# keeps rows from being long in a few coordinates.
METHODS[DEFAULT] = replace(
    METHODS[DEFAULT],
    sentence=f"{CAPS[:-1]}; penalises as the probe does, with a coefficient of its own; and asks facts of an "
    "update to score higher, at a price for large coordinates.",
    coefficient=0.2,
    lift=(0.58, 1.0),
    shrink=(0.002, 0.012),
)
