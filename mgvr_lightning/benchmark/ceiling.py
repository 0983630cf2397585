"""What the machine can do at most."""

from functools import partial

import torch

from mgvr_lightning.benchmark.timing import Spread, interleaved

SIZE = 2048
COPY_BYTES = 2**28
ROUNDS = 10


def ceilings(device: torch.device, dtype: torch.dtype) -> dict[str, Spread]:
    """FLOPs per second of a large matrix product, and bytes per second of a copy, read and written.

    Args:
        device: the device.
        dtype: of the matrices.
    """
    left, right = (torch.randn(SIZE, SIZE, device=device, dtype=dtype) for _ in range(2))
    source = torch.zeros(COPY_BYTES // 4, device=device)
    target = torch.empty_like(source)
    things = {"product": partial(torch.mm, left, right), "copy": partial(target.copy_, source)}
    interleaved(things, 3, device)
    seconds = interleaved(things, ROUNDS, device)
    return {
        "flops_per_second": Spread.of(2 * SIZE**3 / seconds["product"]),
        "bytes_per_second": Spread.of(2 * COPY_BYTES / seconds["copy"]),
    }
