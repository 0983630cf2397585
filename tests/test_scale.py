import torch
import yaml
from helpers import CONFIGS, preset

from mgvr_lightning.model import Transformer, TransformerConfig
from mgvr_lightning.optim import parameter_counts

OVERLAY = yaml.safe_load((CONFIGS / "scale" / "fineweb_edu_130m.yaml").read_text(encoding="utf-8"))


def counts(name: str) -> dict[str, int]:
    config = TransformerConfig(**OVERLAY["model"]["network"])
    with torch.device("meta"):
        return parameter_counts(Transformer(config, preset(name), OVERLAY["data"]["init_args"]["vocabulary"]))


def test_the_scale_overlay_is_about_130_million_parameters() -> None:
    assert 120e6 < sum(counts("transformer").values()) < 135e6


def test_mgvr_adds_between_a_tenth_and_three_tenths_of_a_per_cent() -> None:
    with_mgvr, without = counts("mgvr"), counts("transformer")
    added = sum(with_mgvr.values()) - sum(without.values())
    width, heads, layers = 768, 4, 12
    assert added == with_mgvr["token_dependent"] == (layers - 1) * width * heads * (heads + 1)
    assert 0.001 < added / sum(with_mgvr.values()) < 0.003


def test_the_scale_overlay_sees_a_billion_tokens() -> None:
    data, trainer = OVERLAY["data"]["init_args"], OVERLAY["trainer"]
    assert 0.99e9 < data["global_batch"] * data["context"] * trainer["max_steps"] < 1.01e9
