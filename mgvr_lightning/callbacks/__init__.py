"""What happens beside training, one callback a file."""

from mgvr_lightning.callbacks.budget import Budget
from mgvr_lightning.callbacks.coefficients import Coefficients
from mgvr_lightning.callbacks.data_hash import DataHash
from mgvr_lightning.callbacks.extent import Extent
from mgvr_lightning.callbacks.induction import Induction
from mgvr_lightning.callbacks.last_checkpoint import LastCheckpoint
from mgvr_lightning.callbacks.loss_matching import LossMatching
from mgvr_lightning.callbacks.optimizer_steps import OptimizerSteps
from mgvr_lightning.callbacks.predictions import Predictions
from mgvr_lightning.callbacks.progress import Progress
from mgvr_lightning.callbacks.provenance import Provenance
from mgvr_lightning.callbacks.stop_at_onset import StopAtOnset
from mgvr_lightning.callbacks.summary import Summary
from mgvr_lightning.callbacks.training_log import TrainingLog

__all__ = [
    "Budget",
    "Coefficients",
    "DataHash",
    "Extent",
    "Induction",
    "LastCheckpoint",
    "LossMatching",
    "OptimizerSteps",
    "Predictions",
    "Progress",
    "Provenance",
    "StopAtOnset",
    "Summary",
    "TrainingLog",
]
