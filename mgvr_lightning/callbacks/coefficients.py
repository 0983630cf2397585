"""What gates and mixes have become."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from mgvr_lightning.analysis.coefficients import draw
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.logger import log, run_folder
from mgvr_lightning.model import Transformer
from mgvr_lightning.module import LanguageModule
from mgvr_lightning.values import ValuePath


class Coefficients(Callback):
    """Logs learned gates and mixes of every layer at every validation, as they are, and draws the last ones.

    What depends on tokens is read on the first validation window: `coefficients/gate/layerL` is the mean over
    tokens and heads of a, `coefficients/mix/layerL` that of M's diagonal, `…_spread/layerL` their standard
    deviations, and `coefficients/mix_across/layerL` the mean of |M| off the diagonal. Layers count from 0.
    """

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs."""
        assert isinstance(pl_module, LanguageModule)
        fitting = trainer.state.fn == "fit" and not trainer.sanity_checking
        if not fitting or not trainer.is_global_zero or not learned_paths(pl_module.network):
            return
        ids = torch.as_tensor(pl_module.data.held_out("validation")[0][:1]).to(pl_module.device, torch.int64)
        log(trainer, read(pl_module.network, ids))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draws `coefficients.png` into the run's folder."""
        folder = run_folder(trainer)
        if folder is not None and trainer.is_global_zero and (folder / "metrics.jsonl").is_file():
            draw(Run(folder), folder / "coefficients.png")


def learned_paths(network: Transformer) -> dict[int, ValuePath]:
    """Layer → its value path, where gate or mix have parameters."""
    return {
        layer: path
        for layer, path in enumerate(network.paths)
        if isinstance(path, ValuePath) and any(map(learned, (path.gate, path.mix)))
    }


def learned(part: nn.Module | None) -> bool:
    """Whether a part has parameters."""
    return part is not None and any(True for _ in part.parameters())


@torch.no_grad()
def read(network: Transformer, ids: Tensor) -> dict[str, float]:
    """The coefficients on tokens, (B, T), under the names that the callback logs."""
    found: dict[str, float] = {}

    def keep(layer: int, path: ValuePath, x: Tensor) -> None:
        if learned(path.gate):
            found.update(spread("gate", layer, torch.as_tensor(path.gate(x))))
        if path.mix is not None and learned(path.mix):
            found.update(mix_statistics(layer, torch.as_tensor(path.mix.coefficients(x))))

    hooks = []
    for layer, path in learned_paths(network).items():

        def hook(_: nn.Module, given: tuple[Any, ...], layer: int = layer, path: ValuePath = path) -> None:
            keep(layer, path, given[0])

        hooks.append(path.register_forward_pre_hook(hook))
    try:
        network.hidden(ids)
    finally:
        for handle in hooks:
            handle.remove()
    return found


def mix_statistics(layer: int, mix: Tensor) -> dict[str, float]:
    """Of M: one share, (H, H), (B, T, H), the diagonal alone, or (B, T, H, H)."""
    if mix.ndim not in (2, 4):
        return spread("mix", layer, mix)
    diagonal = mix.diagonal(dim1=-2, dim2=-1)
    found = spread("mix", layer, diagonal)
    off = mix.size(-1) * (mix.size(-1) - 1)
    if off:
        across = (mix.abs().sum((-2, -1)) - diagonal.abs().sum(-1)).double().mean() / off
        found[f"coefficients/mix_across/layer{layer}"] = across.item()
    return found


def spread(kind: str, layer: int, values: Tensor) -> dict[str, float]:
    """Mean, and for more than one number the standard deviation."""
    values = values.double()
    found = {f"coefficients/{kind}/layer{layer}": values.mean().item()}
    if values.numel() > 1:
        found[f"coefficients/{kind}_spread/layer{layer}"] = values.std(correction=0).item()
    return found
