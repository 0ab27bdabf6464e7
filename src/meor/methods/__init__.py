"""Methods: what is added to a continual learner. `METHODS` names them all; a new one is one line there."""

from meor.methods.registry import (
    CAP,
    DEFAULT,
    METHODS,
    NONE,
    UNCAPPED,
    BySize,
    Method,
    at_size,
    current_name,
    former_name,
    method_label,
    needs_coefficient,
    penalties,
    register,
)

__all__ = [
    "CAP",
    "DEFAULT",
    "METHODS",
    "NONE",
    "UNCAPPED",
    "BySize",
    "Method",
    "at_size",
    "current_name",
    "former_name",
    "needs_coefficient",
    "method_label",
    "penalties",
    "register",
]
