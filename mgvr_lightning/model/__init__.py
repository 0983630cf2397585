"""The Transformer around the value paths; knows neither Lightning nor the command line."""

from mgvr_lightning.model.cache import Cache
from mgvr_lightning.model.config import TransformerConfig
from mgvr_lightning.model.generate import Sampling, generate
from mgvr_lightning.model.initialise import initialise, keyed_generator
from mgvr_lightning.model.loss import IGNORE, LossSums
from mgvr_lightning.model.transformer import Transformer

__all__ = [
    "IGNORE",
    "Cache",
    "LossSums",
    "Sampling",
    "Transformer",
    "TransformerConfig",
    "generate",
    "initialise",
    "keyed_generator",
]
