"""Tensor files: safetensors, which hold numbers and can execute nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from meor.errors import RunError
from meor.storage.json_file import REMOVE_AND_REPEAT


def pack_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """safetensors without metadata: equal tensors give equal bytes."""
    return safetensors.torch.save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})


def unpack_tensors(data: bytes, path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; finite floats and whole numbers only."""
    try:
        tensors = safetensors.torch.load(data)
    except (
        SafetensorError,
        KeyError,
        ValueError,
        TypeError,
        OverflowError,
        RuntimeError,
        AttributeError,
    ) as error:
        raise RunError(
            f"{path} is not a safetensors file that can be read ({error}). {REMOVE_AND_REPEAT}"
        ) from None
    for name, tensor in tensors.items():
        try:
            finite = not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
        except RuntimeError:  # eight-bit types have no such test
            finite = False
        if not finite:
            raise RunError(
                f"{path} holds NaN or infinity in `{name}`, or numbers of a type that no run writes. "
                f"{REMOVE_AND_REPEAT}"
            )
    return tensors
