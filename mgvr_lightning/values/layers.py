"""Which layers equation (0) holds in."""

from typing import Literal

from mgvr_lightning.errors import InputError

Layers = Literal["all", "none", "every_second", "last_third"] | list[int]
"""A rule by name, or the layers' indices from 0."""


def selected(layers: Layers, count: int) -> set[int]:
    """Resolves a selection.

    Args:
        layers: the selection. `every_second` ends with the last layer, `last_third` starts at ⌊2·count/3⌋.
        count: number of layers in the network.

    Returns:
        The indices of the selected layers.

    Raises:
        InputError: an index is out of range or a rule is unknown.
    """
    rules = {
        "all": set(range(count)),
        "none": set[int](),
        "every_second": set(range((count - 1) % 2, count, 2)),
        "last_third": set(range(2 * count // 3, count)),
    }
    if isinstance(layers, str):
        if layers not in rules:
            raise InputError(
                f"values.layers: no rule named {layers!r}. Expected one of {', '.join(rules)}, or a list."
            )
        return rules[layers]
    outside = [layer for layer in layers if not 0 <= layer < count]
    if outside:
        raise InputError(f"values.layers: {outside} not among the layers 0 to {count - 1} of this network.")
    return set(layers)
