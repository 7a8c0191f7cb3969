"""Casts tensors of numbers to smaller types."""

from __future__ import annotations

import torch

_INT32 = torch.iinfo(torch.int32)


def cast(tensor: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    """Casts numbers to int32 or a type of floats: to the nearest, with ties to even.

    Raises:
        ValueError: an integer is not an int32, or a finite number would become infinite.
    """
    if to == torch.int32:
        if tensor.numel() and tensor.dtype != torch.bool:
            numbers = tensor.numpy()  # torch has no minimum of unsigned types
            if numbers.min() < _INT32.min or numbers.max() > _INT32.max:
                raise ValueError("an integer is not an int32")
        return tensor.to(to)
    found = tensor.to(to)
    infinite = found.isinf()
    if tensor.dtype.is_floating_point:
        infinite &= ~tensor.isinf()
    if infinite.any():
        raise ValueError(f"a number is infinite as {to}")
    return found
