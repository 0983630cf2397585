"""Value paths: how an attention layer gets the identity of a token into its values.

Composed from parts, each a small module; independent of the rest of the package, so that they can be used
inside another model's attention layer.
"""

from mgvr_lightning.values.declared import Declaration, Declared, Role, declarations
from mgvr_lightning.values.gates import HeadGate, Replace, ScalarGate, TokenGate
from mgvr_lightning.values.identity import Identity, Project
from mgvr_lightning.values.initial import (
    Between,
    Constant,
    Diagonal,
    Draws,
    Initial,
    Normal,
    ProjectedTokens,
    Uniform,
)
from mgvr_lightning.values.layers import Layers, selected
from mgvr_lightning.values.mixes import (
    ChannelShare,
    HeadMatrix,
    ScalarMix,
    TokenMatrix,
    TokenShare,
    mix_heads,
)
from mgvr_lightning.values.part import Gate, Mix, Part, Source, in_fp32
from mgvr_lightning.values.path import OwnValues, ValuePath, ValueSpec
from mgvr_lightning.values.shape import Shape
from mgvr_lightning.values.sources import FirstValues, TokenProjection
from mgvr_lightning.values.tables import TokenTable

__all__ = [
    "Between",
    "ChannelShare",
    "Constant",
    "Declaration",
    "Declared",
    "Diagonal",
    "Draws",
    "FirstValues",
    "Gate",
    "HeadGate",
    "HeadMatrix",
    "Identity",
    "Initial",
    "Layers",
    "Mix",
    "Normal",
    "OwnValues",
    "Part",
    "Project",
    "ProjectedTokens",
    "Replace",
    "Role",
    "ScalarGate",
    "ScalarMix",
    "Shape",
    "Source",
    "TokenGate",
    "TokenMatrix",
    "TokenProjection",
    "TokenShare",
    "TokenTable",
    "Uniform",
    "ValuePath",
    "ValueSpec",
    "declarations",
    "in_fp32",
    "mix_heads",
    "selected",
]
