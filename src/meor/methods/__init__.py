"""Methods: what is added to a continual learner. `METHODS` names them all; a new one is one line there."""

from meor.methods.registry import (
    CAP,
    DEFAULT,
    METHODS,
    NONE,
    UNCAPPED,
    Method,
    current_name,
    former_name,
    is_penalized,
    method_label,
    penalties,
    register,
)

__all__ = [
    "CAP",
    "DEFAULT",
    "METHODS",
    "NONE",
    "UNCAPPED",
    "Method",
    "current_name",
    "former_name",
    "is_penalized",
    "method_label",
    "penalties",
    "register",
]
