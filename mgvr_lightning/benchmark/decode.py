"""How fast a network decodes."""

import torch
from torch import Tensor

from mgvr_lightning.benchmark.step import Setting
from mgvr_lightning.model import Sampling, Transformer, generate, initialise
from mgvr_lightning.values import ValueSpec


class Decoding:
    """Greedy decoding behind a prompt that half of the context holds, with the key-value cache.

    Args:
        values: the value paths.
        setting: everything else; weights are bf16 where matrix products are.
        count: tokens that are generated.
    """

    def __init__(self, values: ValueSpec, setting: Setting, count: int) -> None:
        self.network = Transformer(setting.config, values, setting.vocabulary)
        initialise(self.network, 0)
        self.network.to(setting.device, torch.bfloat16 if setting.bf16 else torch.float32).eval()
        self.prompt = torch.randint(
            setting.vocabulary,
            (setting.batch, setting.context // 2),
            generator=torch.Generator().manual_seed(0),
        ).to(setting.device)
        self.count = count

    def __call__(self) -> Tensor:
        """Reads the prompt and generates; (B, count)."""
        return torch.stack(
            list(generate(self.network, self.prompt, self.count, Sampling(temperature=0.0))), 1
        )
