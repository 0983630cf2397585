"""Bytes of weights and cache: the formula against what tensors take."""

from pathlib import Path

import pytest
import torch
from helpers import CONFIGS, PRESETS, preset, tiny
from runs import arguments

from mgvr_lightning.analysis.memory import memory_of
from mgvr_lightning.commands.memory import main
from mgvr_lightning.model import Transformer, TransformerConfig


@pytest.mark.parametrize("kv_heads", [None, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", PRESETS)
def test_formula_is_what_the_tensors_take(name: str, dtype: torch.dtype, kv_heads: int | None) -> None:
    network = tiny(name, kv_heads=kv_heads).to(dtype)
    memory = memory_of(network, dtype)
    measured = {
        parameter: tensor.untyped_storage().nbytes() for parameter, tensor in network.named_parameters()
    }
    tables = sum(size for parameter, size in measured.items() if parameter.endswith(".table"))
    assert memory.tables == tables
    assert memory.weights == sum(measured.values()) - tables
    for batch, context in ((1, 5), (3, 8)):
        cache = network.cache(batch, context)
        tensors = [cache.ids, *cache.keys, *(values for values in cache.values if values is not None)]
        held = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        assert memory.cache(context, batch) == cache.bytes == held
        assert memory.total(context, batch) == held + sum(measured.values())


@pytest.mark.parametrize("vocabulary", [32_768, 151_936])
@pytest.mark.parametrize(("layers", "width", "heads"), [(12, 768, 6), (24, 1536, 12)])
def test_tables_pay_from_as_many_tokens_on_as_they_have_rows(
    vocabulary: int, layers: int, width: int, heads: int
) -> None:
    """ArXiv 2606.02780, figure 5(a): what is saved is L/3 · D · (T − V) elements."""
    config = TransformerConfig(width=width, layers=layers, heads=heads)
    with torch.device("meta"):
        bank, plain = (
            memory_of(Transformer(config, preset(name), vocabulary), torch.bfloat16)
            for name in ("bank_of_values", "transformer")
        )
    assert bank.tables_break_even(plain) == vocabulary
    projections = plain.weights - bank.weights
    for context in (1000, vocabulary, 200_000):
        saved = plain.total(context) - bank.total(context) - projections
        assert saved == 2 * layers // 3 * width * (context - vocabulary)
    scalars = layers // 3
    assert bank.break_even(plain) == vocabulary - width + scalars * 2 / (2 * layers // 3 * width)


def test_a_cache_no_smaller_than_the_transformers_never_pays() -> None:
    plain = memory_of(tiny("transformer"), torch.float32)
    for name in ("mgvr", "token_projection", "bank_of_values_mix"):
        memory = memory_of(tiny(name), torch.float32)
        assert memory.break_even(plain) is memory.tables_break_even(plain) is None
    aliased = memory_of(tiny("first_values"), torch.float32)
    assert aliased.break_even(plain) == 0


def test_command_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--config", str(CONFIGS / "bank_of_values.yaml"), "--vocabulary", "512", "--plot", "memory.png"]
    with arguments(tmp_path):
        main([*given, "--model.network.width", "64", "--contexts", "[256,1024]"])
    printed = capsys.readouterr().out
    assert "The cache saves what the tables take from 512 tokens on." in printed
    assert "No more than the Transformer in all from 448 tokens on." in printed
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
