"""Muon as the recipe of arXiv 2606.02780 has it: the update of matrices of one shape, and its schedules.

Muon (https://kellerjordan.github.io/posts/muon/) replaces the momentum of a matrix by the nearest orthogonal
one. Here the iteration that finds it is Polar Express (arXiv 2505.16932), rows or columns are then normalised
by a second moment (NorMuon, arXiv 2510.05491), and weights decay only where that doesn't work against the
update (cautious weight decay, arXiv 2510.12402).
"""

import math

import torch
from torch import Tensor

POLAR_EXPRESS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
"""(a, b, c) of each iteration: five of them, safety factor 0.02, cushion 2. Published with arXiv 2505.16932;
the values are those of nanochat/optim.py in https://github.com/karpathy/nanochat."""


def polar_express(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """Brings the singular values of each matrix close to 1.

    Those of at least a thousandth of the matrix's norm end up between 0.85 and 1.15, smaller ones below.

    Args:
        matrices: (N, rows, columns).
        dtype: what the iterations are computed in.

    Returns:
        (N, rows, columns) in that dtype.
    """
    tall = matrices.size(-2) > matrices.size(-1)
    x = (matrices.mT if tall else matrices).to(torch.promote_types(matrices.dtype, dtype))
    x = (x / (torch.linalg.matrix_norm(x, keepdim=True) * 1.01 + 1e-6)).to(dtype)
    for a, b, c in POLAR_EXPRESS:
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def normalised(updates: Tensor, seconds: Tensor, beta: float) -> Tensor:
    """Divides the rows (of wide matrices the columns) by the root of their second moment.

    The norm of each matrix stays what it is.

    Args:
        updates: (N, rows, columns).
        seconds: (N, rows, 1) or (N, 1, columns), the mean squares' moving average; updated in place.
        beta: its decay rate.
    """
    squares = updates.square().mean(-1 if seconds.size(-1) == 1 else -2, keepdim=True)
    seconds.lerp_(squares, 1 - beta)
    scales = seconds.clamp_min(1e-10).rsqrt()
    before = squares.sum((-2, -1), keepdim=True).sqrt()
    after = (squares * scales.square()).sum((-2, -1), keepdim=True).sqrt()
    return updates * (scales * (before / after.clamp_min(1e-10)))


def second_moment(parameter: Tensor) -> Tensor:
    """The second moment at the start: per row, of matrices wider than tall per column."""
    rows, columns = parameter.shape
    return parameter.new_zeros((rows, 1) if rows >= columns else (1, columns))


def muon_step(
    parameters: list[Tensor],
    gradients: list[Tensor],
    momenta: list[Tensor],
    seconds: list[Tensor],
    *,
    rate: float,
    momentum: float,
    beta: float,
    weight_decay: float,
    dtype: torch.dtype,
) -> None:
    """Updates matrices of one shape and their state in place, orthogonalised as one batch.

    Args:
        parameters: the matrices.
        gradients: theirs.
        momenta: moving averages of the gradients.
        seconds: second moments, as of `second_moment`.
        rate: learning rate of a matrix no taller than wide; times √(rows / columns) for a taller one.
        momentum: decay rate of `momenta`, Nesterov's kind.
        beta: decay rate of `seconds`.
        weight_decay: of entries that have the sign of their update.
        dtype: what the orthogonalisation is computed in.
    """
    torch._foreach_lerp_(momenta, gradients, 1 - momentum)
    ahead = torch.stack(torch._foreach_lerp(gradients, momenta, momentum))
    moments = torch.stack(seconds)
    updates = normalised(polar_express(ahead, dtype).to(ahead.dtype), moments, beta)
    torch._foreach_copy_(seconds, list(moments.unbind()))
    if weight_decay:
        stacked = torch.stack(parameters)
        updates.add_(stacked * (updates * stacked >= 0), alpha=weight_decay)
    rows, columns = updates.shape[-2:]
    factor = math.sqrt(max(1.0, rows / columns))
    torch._foreach_add_(parameters, list(updates.unbind()), alpha=-rate * factor)


def scheduled_momentum(
    done: int, momentum: tuple[float, float, float], warmup: int, steps: int, decay_start: float
) -> float:
    """The momentum after `done` updates.

    Linear from the first value to the second over `warmup` updates, which comes before all else; linear to
    the third from `decay_start` to `steps`.
    """
    first, peak, last = momentum
    if done < warmup:
        return first + (peak - first) * done / warmup
    if done < decay_start or steps <= decay_start:
        return peak
    return peak + (last - peak) * min(1.0, (done - decay_start) / (steps - decay_start))


def scheduled_decay(done: int, weight_decay: float, steps: int) -> float:
    """The weight decay after `done` updates: half a cosine to 0 at `steps`."""
    return weight_decay * (1 + math.cos(math.pi * min(1.0, done / steps))) / 2
