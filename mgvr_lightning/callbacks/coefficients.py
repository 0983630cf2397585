"""What gates and mixes have become."""

from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from mgvr_lightning.analysis.coefficients import draw
from mgvr_lightning.analysis.run import METRICS, Run
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

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Logs what the first window of a validation gives."""
        assert isinstance(pl_module, LanguageModule)
        first = batch_idx == 0 and trainer.is_global_zero
        if first and trainer.state.fn == "fit" and not trainer.sanity_checking:
            found = read(pl_module.network, batch.ids[:1])
            if found:
                log(trainer, found)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draws `coefficients.png` into the run's folder."""
        folder = run_folder(trainer)
        if folder is not None and trainer.is_global_zero and (folder / METRICS).is_file():
            picture = draw(Run(folder))
            if picture is not None:
                (folder / "coefficients.png").write_bytes(picture["png"])


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

    def keep(layer: int, path: ValuePath, module: nn.Module, given: tuple[Any, ...]) -> None:
        if learned(path.gate):
            found.update(spread("gate", layer, torch.as_tensor(path.gate(given[0]))))
        if path.mix is not None and learned(path.mix):
            found.update(mix_statistics(layer, torch.as_tensor(path.mix.coefficients(given[0]))))

    paths = learned_paths(network)
    if not paths:
        return found
    hooks = [path.register_forward_pre_hook(partial(keep, layer, path)) for layer, path in paths.items()]
    try:
        network.hidden(ids)
    finally:
        for hook in hooks:
            hook.remove()
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
