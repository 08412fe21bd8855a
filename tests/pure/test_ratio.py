"""The statistics of a comparison, against numbers worked out by hand and against many simulated ones."""

import math
import random

import pytest

from workload.ratio import Ratio, paired_ratio, t_quantile


def test_three_pairs_worked_out_by_hand() -> None:
    ratio = paired_ratio([2.0, 4.4, 9.0], [1.0, 2.0, 5.0])
    assert ratio.pairs == pytest.approx((2.0, 2.2, 1.8))
    # The cube root of 2 * 2.2 * 1.8; the logarithms' standard deviation is 0.100378, times 4.303 / sqrt(3) 0.249373.
    assert ratio.value == pytest.approx(1.993311, rel=1e-5)
    assert ratio.low == pytest.approx(1.553366, rel=1e-4)
    assert ratio.high == pytest.approx(2.557855, rel=1e-4)
    assert not ratio.inside_noise


def test_pairs_of_one_ratio_have_an_interval_of_no_width() -> None:
    ratio = paired_ratio([3.0, 30.0, 300.0], [2.0, 20.0, 200.0])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((1.5, 1.5, 1.5))


def test_what_changes_from_repeat_to_repeat_falls_out_of_pairs() -> None:
    """The machine became ten times slower meanwhile; each pair still says 1.1."""
    first = [110.0, 55.0, 11.0, 22.0]
    ratio = paired_ratio(first, [each / 1.1 for each in first])
    assert ratio.low == pytest.approx(1.1) and not ratio.inside_noise


def test_turned_round_the_ratio_and_its_interval_are_the_inverse() -> None:
    first, second = [5.0, 6.0, 5.5, 7.0], [3.0, 3.1, 2.9, 3.3]
    there, back = paired_ratio(first, second), paired_ratio(second, first)
    assert (there.value, there.low, there.high) == pytest.approx((1 / back.value, 1 / back.high, 1 / back.low))


def test_figures_without_a_partner_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_ratio([1.0, 2.0, 3.0], [1.0, 2.0])


def test_an_interval_too_wide_for_a_float_is_still_one() -> None:
    ratio = paired_ratio([1e-150, 1e150, 1.0], [1e150, 1e-150, 1.0])
    assert 0 < ratio.low < 1 < ratio.high < math.inf
    assert ratio.inside_noise


@pytest.mark.parametrize(
    "edge", [Ratio(value=1.1, low=1.0, high=1.2, pairs=()), Ratio(value=0.9, low=0.8, high=1.0, pairs=())]
)
def test_an_interval_that_ends_at_1_is_inside_the_noise(edge: Ratio) -> None:
    assert edge.inside_noise


def student_below(t: float, degrees: int, *, parts: int = 4000) -> float:
    """The distribution function by Simpson's rule over the density, from 0 on."""
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)

    def density(x: float) -> float:
        return scale * math.pow(1 + x * x / degrees, -(degrees + 1) / 2)

    step = t / parts
    inner = sum((4 if part % 2 else 2) * density(part * step) for part in range(1, parts))
    return 0.5 + step / 3 * (density(0) + inner + density(t))


@pytest.mark.parametrize("degrees", range(1, 31))
def test_the_quantiles_are_students(degrees: int) -> None:
    assert student_below(t_quantile(degrees), degrees) == pytest.approx(0.975, abs=3e-5)


def test_beyond_the_table_the_interval_is_rather_too_wide() -> None:
    assert t_quantile(31) == t_quantile(1000) == t_quantile(30) > 1.96


def noisy(random_numbers: random.Random, speed: float, repeats: int) -> list[float]:
    return [speed * math.exp(random_numbers.gauss(0, 0.05)) for _ in range(repeats)]


@pytest.mark.parametrize("repeats", [3, 4, 8])
def test_of_two_equal_arms_about_95_of_100_comparisons_are_inside_the_noise(repeats: int) -> None:
    random_numbers = random.Random(20260 + repeats)
    inside = sum(
        paired_ratio(noisy(random_numbers, 1000, repeats), noisy(random_numbers, 1000, repeats)).inside_noise
        for _ in range(4000)
    )
    # Four standard deviations of a binomial count of 4000 at 0.95.
    assert inside / 4000 == pytest.approx(0.95, abs=0.014)


@pytest.mark.parametrize("repeats", [3, 5])
def test_twice_as_fast_is_found_in_the_same_noise(repeats: int) -> None:
    random_numbers = random.Random(77 + repeats)
    found = [
        paired_ratio(noisy(random_numbers, 2000, repeats), noisy(random_numbers, 1000, repeats)) for _ in range(1000)
    ]
    assert sum(not ratio.inside_noise and ratio.low > 1 for ratio in found) >= 990
    covered = sum(ratio.low <= 2 <= ratio.high for ratio in found) / len(found)
    assert covered == pytest.approx(0.95, abs=0.028)
