import math
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

from mgvr_lightning.errors import InputError
from mgvr_lightning.optim import AdamW, MuonAdamW, ParameterGroups, RunFacts
from mgvr_lightning.optim.muon import scheduled_decay, scheduled_momentum
from mgvr_lightning.schedule import WarmupStableDecay
from mgvr_lightning.values import Role

TOKENS_PER_PARAMETER = 12
D12 = RunFacts(width=768, batch_tokens=2**19, steps=TOKENS_PER_PARAMETER * 210, decay_start=882)
D24 = RunFacts(width=1536, batch_tokens=2**20, steps=TOKENS_PER_PARAMETER * 696, decay_start=2923)
"""12 · 12 d² + 32,768 d = 210 · 2^19 parameters in matrices and head at 12 layers and d = 768; 12 · 24 d² +
32,768 d = 696 · 2^20 at 24 layers and d = 1536."""


def _groups() -> ParameterGroups:
    return {role: {f"{role.value}.weight": nn.Parameter(torch.zeros(2, 2))} for role in Role}


def _built(facts: RunFacts, **options: Any) -> dict[str, dict[str, Any]]:
    return {group["role"]: group for group in MuonAdamW(**options).build(_groups(), facts).param_groups}


def test_rates_at_the_reference_are_the_papers() -> None:
    assert {role: group["lr"] for role, group in _built(D12).items()} == {
        "embedding": 0.3,
        "head": 0.008,
        "matrix": 0.02,
        "own_scalar": 0.005,
        "source_scalar": 0.5,
        "token_dependent": 0.002,
        "table": 0.15,
    }


def test_rates_at_24_layers_are_the_papers() -> None:
    rates = {role: group["lr"] for role, group in _built(D24).items()}
    unchanged = {"embedding": 0.3, "head": 0.008, "table": 0.15}
    assert {role: rates[role] for role in unchanged} == pytest.approx(unchanged, rel=1e-12)
    assert round(rates["matrix"], 4) == 0.0283
    assert round(rates["source_scalar"], 3) == 0.707
    assert rates["own_scalar"] == pytest.approx(0.005 * math.sqrt(2), rel=1e-12)
    assert rates["token_dependent"] == pytest.approx(0.002 * math.sqrt(2) / 2, rel=1e-12)


def test_decays_and_averages_are_the_papers() -> None:
    built = _built(D12)
    decays = {role: group["weight_decay"] for role, group in built.items()}
    assert decays == {
        "embedding": 0.001,
        "head": 0.01,
        "matrix": 0.28,
        "own_scalar": 0.05,
        "source_scalar": 0,
        "token_dependent": 0,
        "table": 0.01,
    }
    betas = {role: group["betas"] for role, group in built.items() if role != "matrix"}
    assert betas == {
        "embedding": (0.8, 0.995),
        "head": (0.8, 0.96),
        "own_scalar": (0.8, 0.95),
        "source_scalar": (0.96, 0.95),
        "token_dependent": (0.8, 0.95),
        "table": (0.8, 0.995),
    }
    assert {group["eps"] for role, group in built.items() if role != "matrix"} == {1e-10}


def test_decay_of_muon_goes_with_batch_and_length() -> None:
    reference = TOKENS_PER_PARAMETER * 210 * 2**19
    assert _built(D12, reference_tokens=reference)["matrix"]["weight_decay"] == 0.28
    assert round(_built(D24, reference_tokens=reference)["matrix"]["weight_decay"], 4) == 0.0597
    assert _built(D24)["matrix"]["weight_decay"] == 0.28


def test_without_references_rates_stay_as_they_are() -> None:
    built = _built(D24, reference_width=None, reference_batch=None)
    assert [built[role]["lr"] for role in ("embedding", "matrix", "table")] == [0.3, 0.02, 0.15]


def test_the_weight_decay_is_half_a_cosine_over_the_run() -> None:
    values = [scheduled_decay(done, 0.28, 100) for done in (0, 25, 50, 75, 100)]
    half, diagonal = 0.14, 0.14 * math.sqrt(0.5)
    assert values == pytest.approx([0.28, half + diagonal, half, half - diagonal, 0], abs=1e-15)


def test_the_momentum_rises_over_its_warmup_and_falls_with_the_learning_rate() -> None:
    schedule = WarmupStableDecay(warmup=40, decay=0.65, share_of="run")
    start = schedule.decay_start(3766)
    assert start == 3766 - 2448
    ends = {"momentum": (0.85, 0.97, 0.9), "warmup": 400, "steps": 3766, "decay_start": start}
    table = {0: 0.85, 200: 0.91, 400: 0.97, 1318: 0.97, 1318 + 1224: 0.935, 3766: 0.9}
    found = {done: scheduled_momentum(done, **ends) for done in table}  # type: ignore[arg-type]
    assert found == pytest.approx(table, rel=1e-12)


@pytest.mark.parametrize(("warmup", "decay_start"), [(0, 10.0), (0, 0.0), (20, 5.0)])
def test_momentum_where_a_phase_is_missing(warmup: int, decay_start: float) -> None:
    found = [scheduled_momentum(done, (0.8, 0.9, 0.7), warmup, 10, decay_start) for done in (0, 5, 10)]
    expected = {(0, 10.0): [0.9, 0.9, 0.9], (0, 0.0): [0.9, 0.8, 0.7], (20, 5.0): [0.8, 0.825, 0.85]}
    assert found == pytest.approx(expected[warmup, decay_start])


def test_options_by_role_take_the_recipes_place() -> None:
    options = {"rates": {"head": 0.1}, "betas": {"table": (0.7, 0.8)}, "decays": {"own_scalar": 0.3}}
    built = _built(D12, **options)
    assert built["head"]["lr"] == 0.1
    assert built["table"]["betas"] == (0.7, 0.8)
    assert built["own_scalar"]["weight_decay"] == 0.3
    assert built["embedding"]["lr"] == 0.3


def test_roles_of_muon_can_be_chosen() -> None:
    built = _built(D12, muon=["token_dependent"], rates={"matrix": 1e-3})
    assert [role for role, group in built.items() if group["rule"] == "muon"] == ["token_dependent"]
    assert built["matrix"]["lr"] == 1e-3


def test_the_optimizers_share_no_option_that_the_command_line_could_carry_over() -> None:
    shared = {field.name for field in fields(AdamW)} & {field.name for field in fields(MuonAdamW)}
    assert shared == {"betas"}, "a pair in the one, pairs by role in the other: can't be carried over"


REFUSED = {
    "an unknown role of Muon's": ({"muon": ["gate"]}, r"optimizer\.muon: no role named 'gate'"),
    "an unknown role": ({"rates": {"gate": 0.1}}, r"optimizer\.rates: no role named 'gate'"),
    "a setting of AdamW's for Muon": ({"rates": {"matrix": 0.1}}, r"optimizer\.rates: matrix .* by Muon"),
    "a rate of zero": ({"muon_rate": 0.0}, r"optimizer\.muon_rate: 0\.0\."),
    "a rate of a role": ({"rates": {"head": math.inf}}, r"optimizer\.rates\.head: inf\."),
    "a negative decay": ({"muon_decay": -0.1}, r"optimizer\.muon_decay: -0\.1\."),
    "a decay of a role": ({"decays": {"head": math.nan}}, r"optimizer\.decays\.head: nan\."),
    "a momentum of one": ({"momentum": (0.85, 1.0, 0.9)}, r"optimizer\.momentum: 0\.85, 1\.0, 0\.9\."),
    "averages of a role": ({"betas": {"head": (0.8, 1.5)}}, r"optimizer\.betas\.head: 0\.8, 1\.5\."),
    "a second moment that grows": ({"beta": 1.1}, r"optimizer\.beta: 1\.1\."),
    "a negative warm-up": ({"momentum_warmup": -1}, r"optimizer\.momentum_warmup: -1\."),
    "a negative eps": ({"adamw_eps": -1.0}, r"optimizer\.adamw_eps: -1\.0\."),
    "a width of zero": ({"reference_width": 0}, r"optimizer\.reference_width: 0\."),
    "tokens without a batch": (
        {"reference_tokens": 1e9, "reference_batch": None},
        r"optimizer\.reference_tokens: .*reference_batch",
    ),
    "an unknown precision": ({"dtype": "float16"}, r"optimizer\.dtype: no 'float16'.*float32"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_train_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MuonAdamW(**options)


def test_a_role_without_a_rate_is_named() -> None:
    with pytest.raises(InputError, match=r"optimizer\.rates: .*for matrix"):
        _built(D12, muon=[])


def test_a_parameter_that_is_no_matrix_is_named() -> None:
    groups = {Role.OWN_SCALAR: {"path.gate": nn.Parameter(torch.zeros(4))}}
    with pytest.raises(InputError, match=r"optimizer\.muon: path\.gate.*own_scalar.*\(4,\)"):
        MuonAdamW(muon=["own_scalar"]).build(groups, D12)
