from typing import Any

import pytest
import torch
import yaml
from helpers import CONFIGS, preset

from mgvr_lightning.model import Transformer, TransformerConfig
from mgvr_lightning.optim import parameter_counts

PAPER = "fineweb_edu_130m"
SMALL, LARGE = "bank_of_values_135m", "bank_of_values_780m"


def overlay(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((CONFIGS / "scale" / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


def network(name: str, scale: str) -> Transformer:
    settings = overlay(scale)
    config = TransformerConfig(**settings["model"]["network"])
    with torch.device("meta"):
        return Transformer(config, preset(name), settings["data"]["init_args"]["vocabulary"])


def counts(name: str, scale: str = PAPER) -> dict[str, int]:
    return parameter_counts(network(name, scale))


def test_the_scale_overlay_is_about_130_million_parameters() -> None:
    assert 120e6 < sum(counts("transformer").values()) < 135e6


def test_mgvr_adds_between_a_tenth_and_three_tenths_of_a_per_cent() -> None:
    with_mgvr, without = counts("mgvr"), counts("transformer")
    added = sum(with_mgvr.values()) - sum(without.values())
    width, heads, layers = 768, 4, 12
    assert added == with_mgvr["token_dependent"] == (layers - 1) * width * heads * (heads + 1)
    assert 0.001 < added / sum(with_mgvr.values()) < 0.003


def test_the_scale_overlay_sees_a_billion_tokens() -> None:
    data, trainer = overlay(PAPER)["data"]["init_args"], overlay(PAPER)["trainer"]
    assert 0.99e9 < data["global_batch"] * data["context"] * trainer["max_steps"] < 1.01e9


@pytest.mark.parametrize(
    ("scale", "parameters", "flops", "batch", "steps"),
    [
        (SMALL, 135_266_304, 7.60e8, 2**19, 3_766),
        (LARGE, 780_140_544, 4.78e9, 2**20, 7_809),
    ],
)
def test_sizes_of_the_bank_of_values_paper(
    scale: str, parameters: int, flops: float, batch: int, steps: int
) -> None:
    """Arxiv 2606.02780: FLOPs per token to three digits, and the steps that follow from its budgets."""
    transformer, settings = network("transformer", scale), overlay(scale)
    data = settings["data"]["init_args"]
    cost = transformer.flops_per_token(data["context"])
    assert sum(parameter_counts(transformer).values()) == parameters
    assert float(f"{cost:.2e}") == flops
    assert data["global_batch"] * data["context"] == batch
    assert round(settings["budget"]["flops"] / (cost * batch)) == steps


def test_tables_and_dead_projections_of_the_bank_of_values_paper() -> None:
    for scale, tables, dead in ((SMALL, 100.7e6, 14.2e6), (LARGE, 402.7e6, 113.2e6)):
        plain, bank = network("transformer", scale), network("bank_of_values", scale)
        assert parameter_counts(bank)["table"] == pytest.approx(tables, rel=1e-3)
        fewer = plain.flops_per_token(2048) - bank.flops_per_token(2048)
        assert fewer == pytest.approx(dead, rel=5e-3)
