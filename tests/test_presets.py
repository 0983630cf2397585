from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import CONFIGS, PRESETS
from runs import arguments

from mgvr_lightning.cli import CommandLine
from mgvr_lightning.parser import Parser

TRANSFORMER = CONFIGS / "transformer.yaml"


class ParseOnly(CommandLine):
    """Stops short of building anything."""

    def instantiate_classes(self) -> None:
        """Builds nothing."""

    def _run_subcommand(self, subcommand: str) -> None:
        """Runs nothing."""


@cache
def _parser() -> Parser:
    with arguments(Path(), "fit", "--config", str(TRANSFORMER)):
        parser: Parser = ParseOnly()._subcommand_parsers["fit"]
    return parser


def _plain(settings: Any) -> Any:
    """Without empty `init_args`, which say the same as none."""
    if not isinstance(settings, dict):
        return settings
    return {key: _plain(value) for key, value in settings.items() if (key, value) != ("init_args", {})}


def _parsed(*configs: Path) -> dict[str, Any]:
    given = [argument for path in configs for argument in ("--config", str(path))]
    settings: dict[str, Any] = _plain(_parser().parse_args(given).as_dict())
    settings.pop("config")
    return settings


@cache
def _alone(preset: str) -> dict[str, Any]:
    return _parsed(CONFIGS / f"{preset}.yaml")


def _split(preset: str) -> tuple[dict[str, Any], Any]:
    settings = _alone(preset)
    model = {key: value for key, value in settings["model"].items() if key != "values"}
    return {**settings, "model": model}, settings["model"]["values"]


@pytest.mark.parametrize(
    "path",
    sorted(path for path in CONFIGS.rglob("*.yaml") if path.parent.name != "studies"),
    ids=lambda path: path.stem,
)
def test_every_shipped_configuration_is_valid_over_every_kind_of_preset(path: Path) -> None:
    for preset in ("transformer", "mgvr"):
        settings = _parsed(CONFIGS / f"{preset}.yaml", path)
        own = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert set(own) <= set(settings)


@pytest.mark.parametrize("first", PRESETS)
def test_a_preset_laid_over_another_is_as_if_it_stood_alone(first: str) -> None:
    for before, after in permutations(PRESETS, 2):
        if before == first:
            paths = CONFIGS / f"{before}.yaml", CONFIGS / f"{after}.yaml"
            assert _parsed(*paths)["model"]["values"] == _alone(after)["model"]["values"], after


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_differ_in_their_values_alone(preset: str) -> None:
    (ours, our_values), (theirs, their_values) = _split(preset), _split("transformer")
    assert ours == theirs
    assert (our_values == their_values) == (preset == "transformer")


def test_presets_are_all_different() -> None:
    assert len({str(_split(preset)[1]) for preset in PRESETS}) == len(PRESETS)


def test_a_command_line_option_wins_over_the_file_and_the_file_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MGVR_FIT__MODEL__SEED", "3")
    seeds = tmp_path / "seed.yaml"
    seeds.write_text("model: {seed: 5}\n", encoding="utf-8")
    start = ["fit", "--config", str(TRANSFORMER)]
    for given, seed in (([], 3), (["--config", str(seeds)], 5), (["--model.seed", "7"], 7)):
        with arguments(tmp_path, *start, *given):
            assert ParseOnly().config.fit.model.seed == seed
