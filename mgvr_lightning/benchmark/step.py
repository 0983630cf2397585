"""A training step without anything around it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mgvr_lightning.compile import compile_obstacle
from mgvr_lightning.errors import InputError
from mgvr_lightning.model import Transformer, TransformerConfig, initialise
from mgvr_lightning.optim import AdamW, Optimizer, RunFacts, role_groups
from mgvr_lightning.values import ValueSpec

VARIANTS = 256


@dataclass(frozen=True)
class Setting:
    """What all networks of a benchmark have in common.

    Attributes:
        config: shape of the network.
        vocabulary: number of token ids.
        context: T, tokens of a sequence.
        batch: sequences of a step.
        bf16: whether matrix products run in bf16, under autocast.
        compiled: whether the network is compiled.
        device: where it runs.
    """

    config: TransformerConfig
    vocabulary: int
    context: int
    batch: int
    bf16: bool
    compiled: bool
    device: torch.device

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.batch * self.context


class Step:
    """Forward, backward, clipping and AdamW on random tokens.

    Args:
        values: the value paths.
        setting: everything else.
        optimizer: how it is optimised; None for AdamW.

    Raises:
        InputError: it is to be compiled, and can't be here.
    """

    def __init__(self, values: ValueSpec, setting: Setting, optimizer: Optimizer | None = None) -> None:
        self.setting = setting
        self.network = Transformer(setting.config, values, setting.vocabulary)
        initialise(self.network, 0)
        self.network.to(setting.device)
        facts = RunFacts(setting.config.width, setting.tokens, 1_000, 1_000)
        self.optimizer = (optimizer or AdamW()).build(role_groups(self.network), facts)
        shape = (setting.batch, setting.context + 1)
        self.ids = torch.randint(
            setting.vocabulary, shape, generator=torch.Generator().manual_seed(0), dtype=torch.int64
        ).to(setting.device)
        if setting.compiled:
            compile_whole(self.network, setting.device)

    def __call__(self) -> Tensor:
        """Makes a step, and returns its loss."""
        ids, targets = self.ids[:, :-1], self.ids[:, 1:]
        with torch.autocast(self.setting.device.type, torch.bfloat16, enabled=self.setting.bf16):
            loss: Tensor = self.network(ids, targets).nll / self.setting.tokens
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def compile_whole(network: Transformer, device: torch.device) -> None:
    """Compiles a network in place, and has Dynamo fail rather than run it eagerly.

    Raises:
        InputError: there is no compiler.
    """
    obstacle = compile_obstacle(device)
    if obstacle is not None:
        raise InputError(f"compile: {obstacle}. Give --compile false.")
    torch._dynamo.config.recompile_limit = VARIANTS
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    network.compile(dynamic=False, fullgraph=True)
