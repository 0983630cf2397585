import pytest

from mgvr_lightning.errors import InputError
from mgvr_lightning.values import (
    FirstValues,
    Layers,
    OwnValues,
    Replace,
    ScalarGate,
    ScalarMix,
    Shape,
    TokenProjection,
    ValuePath,
    ValueSpec,
    selected,
)


def shapes(count: int) -> list[Shape]:
    return [Shape(8, 2, 4, layer, count, 11) for layer in range(count)]


def gate(shape: Shape) -> ScalarGate:
    return ScalarGate(shape, 0.5, learned=False)


def mix(shape: Shape) -> ScalarMix:
    return ScalarMix(shape, 0.5, learned=False)


@pytest.mark.parametrize(
    ("layers", "count", "expected"),
    [
        ("all", 1, {0}),
        ("all", 4, {0, 1, 2, 3}),
        ("none", 4, set()),
        ("every_second", 1, {0}),
        ("every_second", 2, {1}),
        ("every_second", 5, {0, 2, 4}),
        ("every_second", 12, {1, 3, 5, 7, 9, 11}),
        ("last_third", 1, {0}),
        ("last_third", 2, {1}),
        ("last_third", 3, {2}),
        ("last_third", 4, {2, 3}),
        ("last_third", 5, {3, 4}),
        ("last_third", 6, {4, 5}),
        ("last_third", 12, {8, 9, 10, 11}),
        ([], 4, set()),
        ([2, 0, 2], 4, {0, 2}),
        ([3], 4, {3}),
    ],
)
def test_rule_selects(layers: Layers, count: int, expected: set[int]) -> None:
    assert selected(layers, count) == expected


@pytest.mark.parametrize("index", [4, 17, -1])
def test_index_outside_the_network_is_refused_with_the_range(index: int) -> None:
    with pytest.raises(InputError, match=rf"values\.layers: \[{index}\] not among the layers 0 to 3"):
        selected([1, index], 4)


def test_unknown_rule_is_refused_with_the_rules() -> None:
    with pytest.raises(InputError, match=r"values\.layers.*'last_half'.*all, none, every_second, last_third"):
        selected("last_half", 4)  # type: ignore[arg-type]


@pytest.mark.parametrize("layers", ["all", "none", "every_second", "last_third", [1, 3]])
def test_other_layers_keep_their_own_values(layers: Layers) -> None:
    paths = ValueSpec(TokenProjection, gate, mix, layers).build(shapes(6))
    composed = {layer for layer, path in enumerate(paths) if isinstance(path, ValuePath)}
    assert composed == selected(layers, 6)
    assert all(isinstance(path, ValuePath | OwnValues) for path in paths)


@pytest.mark.parametrize(("layers", "composed"), [("all", {1, 2, 3, 4}), ([0], set()), ([0, 2], {2})])
def test_first_layer_keeps_its_own_values_where_they_are_the_source(
    layers: Layers, composed: set[int]
) -> None:
    for choice in (gate, Replace):
        paths = ValueSpec(FirstValues, choice, mix, layers).build(shapes(5))
        assert isinstance(paths[0], OwnValues)
        assert {layer for layer, path in enumerate(paths) if isinstance(path, ValuePath)} == composed


def test_every_layer_builds_parts_of_its_own_shape() -> None:
    paths = ValueSpec(TokenProjection, gate, mix, "all").build(shapes(3))
    assert [path.gate.shape.layer for path in paths if isinstance(path, ValuePath)] == [0, 1, 2]
    assert len({id(path) for path in paths}) == 3


def test_source_without_mix_is_refused() -> None:
    with pytest.raises(InputError, match="source is set but mix is null"):
        ValueSpec(FirstValues, gate, None, "all")


def test_mix_without_source_is_refused() -> None:
    with pytest.raises(InputError, match="mix is set but source is null"):
        ValueSpec(None, gate, mix, "all")


def test_replacing_without_a_source_is_refused() -> None:
    with pytest.raises(InputError, match="without a source the gate can't drop"):
        ValueSpec(None, Replace, None, "all").build(shapes(2))


def test_gate_alone_needs_no_source() -> None:
    assert all(isinstance(path, ValuePath) for path in ValueSpec(None, gate, None, "all").build(shapes(2)))
