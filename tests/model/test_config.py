import re

import pytest
import torch
from helpers import preset, tokens

from mgvr_lightning.errors import InputError
from mgvr_lightning.model import Transformer, TransformerConfig
from mgvr_lightning.values import Shape

OPTIONS = ["width", "layers", "heads", "kv_heads", "rotary_base", "mlp_width", "softcap"]


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("value", [0, -4, float("nan"), float("inf")])
def test_option_that_must_be_positive_and_finite(option: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"network\.{option}: {value} is not a positive, finite number"):
        TransformerConfig(**{option: value})


@pytest.mark.parametrize(
    ("width", "heads", "nearest"),
    [(256, 5, [2, 4, 8]), (768, 7, [6, 8]), (96, 10, [8, 12])],
)
def test_heads_that_do_not_divide_the_width(width: int, heads: int, nearest: list[int]) -> None:
    with pytest.raises(
        InputError, match=rf"network\.heads: {heads} heads don't divide width {width}"
    ) as error:
        TransformerConfig(width=width, heads=heads)
    assert set(nearest) <= set(suggestions(error.value))


@pytest.mark.parametrize(("width", "heads"), [(256, 5), (16, 12), (12, 8), (30, 14), (12, 4), (16, 16)])
def test_suggested_heads_are_accepted(width: int, heads: int) -> None:
    with pytest.raises(InputError, match="Nearest that do") as error:
        TransformerConfig(width=width, heads=heads)
    assert suggestions(error.value)
    for suggested in suggestions(error.value):
        TransformerConfig(width=width, heads=suggested)


def suggestions(error: InputError) -> list[int]:
    listed = re.search(r"\[([\d, ]+)\]\.$", str(error))
    assert listed
    return [int(number) for number in listed[1].split(",")]


def test_an_odd_width_has_no_heads_that_can_be_rotated() -> None:
    with pytest.raises(InputError, match="Choose an even width"):
        TransformerConfig(width=9, heads=3)


def test_an_unknown_mlp_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"no MLP named 'relu'\. Expected one of squared_relu"):
        TransformerConfig(mlp="relu")  # type: ignore[arg-type]


@pytest.mark.parametrize("kv_heads", [5, 8, 24])
def test_key_value_heads_must_divide_the_heads(kv_heads: int) -> None:
    message = rf"network\.kv_heads: {kv_heads} doesn't divide heads \(12\)\. These do: \[1, 2, 3, 4, 6, 12\]"
    with pytest.raises(InputError, match=message):
        TransformerConfig(width=96, heads=12, kv_heads=kv_heads)


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ({"width": 256}, 1024),
        ({"width": 256, "mlp": "swiglu"}, 704),
        ({"width": 768, "mlp": "swiglu"}, 2048),
        ({"width": 16, "mlp": "swiglu"}, 64),
        ({"width": 256, "mlp": "swiglu", "mlp_width": 5}, 5),
        ({"width": 256, "mlp_width": 5}, 5),
    ],
)
def test_hidden_width(options: dict[str, int | str], hidden: int) -> None:
    assert TransformerConfig(**options).hidden_width == hidden


def test_shapes_count_key_value_heads() -> None:
    config = TransformerConfig(width=48, layers=2, heads=6, kv_heads=3)
    assert config.shapes(11) == [Shape(48, 3, 8, 0, 2, 11), Shape(48, 3, 8, 1, 2, 11)]
    assert TransformerConfig(width=48, heads=6).shapes(11)[0].kv_heads == 6


def test_weights_have_the_configured_shapes() -> None:
    config = TransformerConfig(width=48, layers=1, heads=6, kv_heads=3, mlp="swiglu", mlp_width=10)
    network = Transformer(config, preset("transformer"), 37)
    assert {name: tuple(parameter.shape) for name, parameter in network.named_parameters()} == {
        "embedding.weight": (37, 48),
        "blocks.0.attention.query.weight": (48, 48),
        "blocks.0.attention.key.weight": (24, 48),
        "blocks.0.attention.value.weight": (24, 48),
        "blocks.0.attention.output.weight": (48, 48),
        "blocks.0.mlp.gate.weight": (10, 48),
        "blocks.0.mlp.up.weight": (10, 48),
        "blocks.0.mlp.down.weight": (48, 10),
        "head.weight": (37, 48),
    }
    assert network.logits(tokens(2, 3)).shape == (2, 3, 37)
    assert network.logits(tokens(2, 3)).dtype == torch.float32
