import pytest
import torch
from helpers import PRESETS, tiny

from mgvr_lightning.errors import InputError
from mgvr_lightning.optim import AdamW, parameter_counts, role_groups
from mgvr_lightning.values import Role


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


def test_weight_decay_acts_on_the_decayed_roles_alone() -> None:
    optimizer = AdamW(weight_decay=0.3, decayed=["matrix", "own_scalar"]).build(
        role_groups(tiny("static_mix"))
    )
    decay = {group["role"]: group["weight_decay"] for group in optimizer.param_groups}
    assert decay == {"embedding": 0, "head": 0, "matrix": 0.3, "own_scalar": 0.3, "source_scalar": 0}


def test_gates_and_mixes_do_not_decay_by_default() -> None:
    optimizer = AdamW().build(role_groups(tiny("mgvr")))
    decay = {group["role"]: group["weight_decay"] for group in optimizer.param_groups}
    assert decay["matrix"] == decay["head"] == 0.1
    assert decay["embedding"] == decay["token_dependent"] == 0


def test_multipliers_scale_the_learning_rate_of_their_role() -> None:
    spec = AdamW(learning_rate=1e-3, multipliers={"token_dependent": 4.0, "embedding": 0.5})
    rates = {group["role"]: group["lr"] for group in spec.build(role_groups(tiny("mgvr"))).param_groups}
    assert rates == pytest.approx({"embedding": 5e-4, "head": 1e-3, "matrix": 1e-3, "token_dependent": 4e-3})


def test_decayed_parameters_shrink_without_a_gradient_and_others_stay() -> None:
    network = tiny("transformer")
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    groups = role_groups(network)
    optimizer = AdamW(learning_rate=0.1, weight_decay=0.5).build(groups)
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for role, group in groups.items():
        factor = 0.95 if role in (Role.MATRIX, Role.HEAD) else 1.0
        for name, parameter in group.items():
            torch.testing.assert_close(parameter.detach(), factor * before[name])


@pytest.mark.parametrize("options", [{"decayed": ["matrices"]}, {"multipliers": {"gate": 2.0}}])
def test_an_unknown_role_names_the_option_and_the_roles(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=rf"optimizer\.{next(iter(options))}.*token_dependent"):
        AdamW(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [0.0, -1e-3, float("inf"), float("nan")])
def test_a_learning_rate_that_cannot_train_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="learning_rate"):
        AdamW(learning_rate=rate)
