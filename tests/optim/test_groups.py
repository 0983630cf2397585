import pytest
import torch
from helpers import PRESETS, tiny
from torch import nn

from mgvr_lightning.optim import MuonAdamW, RunFacts, parameter_counts, role_groups
from mgvr_lightning.values import Role

FACTS = RunFacts(width=16, batch_tokens=2**19, steps=100, decay_start=35)


@pytest.mark.parametrize("name", PRESETS)
def test_every_parameter_is_in_exactly_one_group(name: str) -> None:
    network = tiny(name)
    groups = role_groups(network)
    grouped = [parameter for group in groups.values() for parameter in group.values()]
    assert len(grouped) == len({id(parameter) for parameter in grouped})
    assert {id(parameter) for parameter in grouped} == {id(parameter) for parameter in network.parameters()}
    assert all(groups.values())
    assert sum(parameter_counts(network).values()) == sum(p.numel() for p in network.parameters())


def test_roles_of_the_full_variant() -> None:
    counts = parameter_counts(tiny("mgvr"))
    heads, width, later_layers = 4, 16, 5
    assert counts["token_dependent"] == later_layers * (heads + heads**2) * width
    assert set(counts) == {"embedding", "head", "matrix", "token_dependent"}
    assert parameter_counts(tiny("value_residual_learned"))["own_scalar"] == later_layers
    assert parameter_counts(tiny("static_mix"))["source_scalar"] == later_layers * heads**2


def test_a_tied_head_is_grouped_once() -> None:
    assert "head" not in parameter_counts(tiny("transformer", tied=True))


@pytest.mark.parametrize("name", PRESETS)
def test_the_recipe_updates_every_parameter_of_every_preset_by_one_rule(name: str) -> None:
    network = tiny(name)
    groups = MuonAdamW().build(role_groups(network), FACTS).param_groups
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(grouped) == sorted(id(parameter) for parameter in network.parameters())
    roles = [group["role"] for group in groups]
    assert len(roles) == len(set(roles)) == len(parameter_counts(network))
    assert [group["role"] for group in groups if group["rule"] == "muon"] == ["matrix"]


def test_a_parameter_with_two_roles_is_a_fault_of_the_program() -> None:
    parameter = nn.Parameter(torch.zeros(2, 2))
    with pytest.raises(AssertionError, match="two roles"):
        MuonAdamW().build({Role.MATRIX: {"one": parameter}, Role.HEAD: {"other": parameter}}, FACTS)
