import re

import numpy as np
import pytest

from mgvr_lightning.data.layout import Layout
from mgvr_lightning.errors import InputError


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _divisions(global_batch: int) -> list[tuple[int, int]]:
    return [(ranks, micro) for ranks in _divisors(global_batch) for micro in _divisors(global_batch // ranks)]


@pytest.mark.parametrize("global_batch", [1, 7, 12, 24])
def test_every_division_makes_each_step_of_the_same_positions(global_batch: int) -> None:
    divisions = _divisions(global_batch)
    assert len(divisions) >= global_batch.bit_length()
    for ranks, micro in divisions:
        layouts = [Layout.of(global_batch, micro, ranks, rank) for rank in range(ranks)]
        accumulation = layouts[0].accumulation
        assert accumulation * micro * ranks == global_batch
        for step in (0, 1, 2, 10**9):
            expected = np.arange(step * global_batch, (step + 1) * global_batch)
            indices = range(step * accumulation, (step + 1) * accumulation)
            parts = [layout.positions(index) for layout in layouts for index in indices]
            assert all(len(part) == micro for part in parts)
            np.testing.assert_array_equal(np.sort(np.concatenate(parts)), expected)
            for layout in layouts:
                for index in indices:
                    np.testing.assert_array_equal(layout.step_positions(index), expected)


def test_without_a_micro_batch_a_rank_does_its_share_at_once() -> None:
    layout = Layout.of(24, None, ranks=3, rank=2)
    assert (layout.micro_batch, layout.accumulation) == (8, 1)
    np.testing.assert_array_equal(layout.positions(1), np.arange(40, 48))


@pytest.mark.parametrize(("global_batch", "ranks"), [(10, 4), (1, 2), (0, 1), (0, 3), (-4, 2), (7, 8)])
def test_a_batch_that_cannot_be_divided_over_ranks_names_one_that_can(global_batch: int, ranks: int) -> None:
    with pytest.raises(InputError, match=r"data\.global_batch") as raised:
        Layout.of(global_batch, None, ranks)
    advice = re.search(r"Nearest that can: (\d+)", str(raised.value))
    assert advice is not None
    nearest = int(advice[1])
    assert Layout.of(nearest, None, ranks).global_batch == nearest
    assert abs(nearest - global_batch) <= max(ranks, ranks - global_batch)


@pytest.mark.parametrize("micro_batch", [5, 9, 24, 0, -3])
def test_a_micro_batch_that_does_not_divide_names_all_that_do(micro_batch: int) -> None:
    with pytest.raises(InputError, match=r"data\.micro_batch") as raised:
        Layout.of(24, micro_batch, ranks=2)
    named = [int(number) for number in str(raised.value).rsplit("These do: ", 1)[1].rstrip(".").split(", ")]
    assert named == [1, 2, 3, 4, 6, 12]
    for micro in named:
        Layout.of(24, micro, ranks=2)
