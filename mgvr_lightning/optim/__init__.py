"""Parameter groups by role, and the optimizers that are built from them."""

from mgvr_lightning.optim.adamw import AdamW
from mgvr_lightning.optim.groups import ParameterGroups, parameter_counts, role_groups
from mgvr_lightning.optim.mixed import MuonAdamWOptimizer
from mgvr_lightning.optim.recipe import MuonAdamW
from mgvr_lightning.optim.spec import Optimizer, RunFacts

__all__ = [
    "AdamW",
    "MuonAdamW",
    "MuonAdamWOptimizer",
    "Optimizer",
    "ParameterGroups",
    "RunFacts",
    "parameter_counts",
    "role_groups",
]
