import pytest
import torch
from helpers import tiny

from mgvr_lightning.errors import InputError
from mgvr_lightning.optim import AdamW, role_groups
from mgvr_lightning.values import Role


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


OUT_OF_RANGE = {
    "betas": (0.9, 1.0),
    "eps": -1e-8,
    "weight_decay": float("nan"),
    "multipliers": {"head": -1.0},
}


@pytest.mark.parametrize(("option", "value"), OUT_OF_RANGE.items())
def test_an_option_out_of_range_is_named(option: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"optimizer\.{option}.*Expected"):
        AdamW(**{option: value})  # type: ignore[arg-type]
