"""Muon and AdamW in one optimizer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from mgvr_lightning.optim.muon import muon_step, scheduled_decay, scheduled_momentum, second_moment


class MuonAdamWOptimizer(torch.optim.Optimizer):
    """Updates each of its groups by Muon or by AdamW, as the group's `rule` says.

    A group of AdamW has what `torch.optim.AdamW` knows, whose kernel updates it: lr, betas, eps, weight_decay
    and fused. A group of Muon has lr, momentum, momentum_warmup, beta, weight_decay, dtype, steps and
    decay_start, from which the values of a step follow together with the number of updates that a parameter
    has had. Parameters without a gradient stay as they are.

    Args:
        groups: parameter groups.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups, {})

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], Tensor | float] | None = None
    ) -> Tensor | float | None:
        """Does one step.

        Args:
            closure: computes the gradients and returns the loss.

        Returns:
            What the closure returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            (self._muon if group["rule"] == "muon" else self._adamw)(group)
        return loss

    def _muon(self, group: dict[str, Any]) -> None:
        batches: dict[tuple[Any, ...], list[Tensor]] = {}
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["step"] = 0
                state["momentum_buffer"] = torch.zeros_like(parameter)
                state["second_moment"] = second_moment(parameter)
            kind = (parameter.shape, parameter.dtype, parameter.device, state["step"])
            batches.setdefault(kind, []).append(parameter)
            state["step"] += 1
        for (*_, done), parameters in batches.items():
            states = [self.state[parameter] for parameter in parameters]
            muon_step(
                parameters,
                [parameter.grad for parameter in parameters if parameter.grad is not None],
                [state["momentum_buffer"] for state in states],
                [state["second_moment"] for state in states],
                rate=group["lr"],
                momentum=scheduled_momentum(
                    done, group["momentum"], group["momentum_warmup"], group["steps"], group["decay_start"]
                ),
                beta=group["beta"],
                weight_decay=scheduled_decay(done, group["weight_decay"], group["steps"]),
                dtype=getattr(torch, group["dtype"]),
            )

    def _adamw(self, group: dict[str, Any]) -> None:
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
        if not parameters:
            return
        states = [self.state[parameter] for parameter in parameters]
        adamw(
            parameters,
            [parameter.grad for parameter in parameters],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=group["fused"],
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )
