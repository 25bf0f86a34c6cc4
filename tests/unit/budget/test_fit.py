"""Fitted speedups: what was put in comes out, in any unit, and what is not concave is named."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.budget.fit import Fit, fit_speedups, normalised, under_hull
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.files.measured import MeasuredSeries, RowSelection, read_measured

WIDTHS = (1, 2, 4, 8, 16)
TRUTHS: list[Speedup] = [Amdahl(0.0), Amdahl(0.93), Amdahl(1.0), Power(0.7), Power(1.0), Linear(0.8, 0.2)]


def measured(
    speedup: Speedup, widths: tuple[int, ...] = WIDTHS, unit: float = 1.0
) -> list[tuple[float, float]]:
    return [(float(gpus), unit * speedup(gpus)) for gpus in widths]


def of_form(points: list[tuple[float, float]], form: str) -> Fit:
    return next(fit for fit in fit_speedups(points).fits if fit.form == form)


@pytest.mark.parametrize("truth", TRUTHS, ids=repr)
@pytest.mark.parametrize("unit", [1.0, 52.1, 1e-4])
def test_a_form_is_found_again_in_any_unit(truth: Speedup, unit: float) -> None:
    fit = of_form(measured(truth, unit=unit), type(truth).__name__.lower())
    assert fit.error_share < 1e-6
    assert fit.scale == 1
    assert [fit(gpus) for gpus in WIDTHS] == pytest.approx([truth(gpus) for gpus in WIDTHS], rel=1e-5)


@pytest.mark.parametrize("truth", [Amdahl(0.93), Power(0.7), Linear(0.8, 0.2)], ids=repr)
def test_without_one_gpu_the_shape_is_found_and_the_unit_guessed(truth: Speedup) -> None:
    fit = of_form(measured(truth, (4, 8, 16, 32), unit=9.0), type(truth).__name__.lower())
    assert fit.speedup(32) == pytest.approx(truth(32), rel=1e-4)
    assert fit(4) == pytest.approx(4, rel=1e-4)


def test_the_closest_form_comes_first() -> None:
    for truth in (Amdahl(0.9), Power(0.6), Linear(0.5, 0.5)):
        fits = fit_speedups(measured(truth)).fits
        assert fits[0].form == type(truth).__name__.lower()
        assert all(left.error_share <= right.error_share for left, right in pairwise(fits))


def test_no_other_parameter_is_closer() -> None:
    noisy = [(1.0, 1.0), (2.0, 1.7), (4.0, 3.6), (8.0, 5.0)]

    def error(speedup: Speedup) -> float:
        return math.sqrt(sum((speedup(gpus) / rate - 1) ** 2 for gpus, rate in noisy) / len(noisy))

    amdahl, power = of_form(noisy, "amdahl"), of_form(noisy, "power")
    assert amdahl.error_share == pytest.approx(error(amdahl.speedup))
    for parameter in (number / 5000 for number in range(1, 5001)):
        assert amdahl.error_share <= error(Amdahl(parameter)) + 1e-12
        assert power.error_share <= error(Power(parameter)) + 1e-12


def test_points_under_the_hull_are_named() -> None:
    fitted = fit_speedups([(1, 10.0), (2, 19.4), (3, 25.3), (4, 36.6)])
    (point,) = fitted.under
    assert (point.gpus, point.speedup, point.hull_speedup) == pytest.approx((3, 2.53, (1.94 + 3.66) / 2))
    assert point.share == pytest.approx(1 - 2.53 / 2.8)
    assert [gpus for gpus, _ in fitted.table.points] == [1, 2, 4]
    assert fitted.table_error_share > 0


def test_what_is_faster_than_perfect_lifts_the_narrow_widths() -> None:
    (point,) = under_hull(Table.of({1: 1, 2: 2.2}))
    assert (point.gpus, point.hull_speedup) == pytest.approx((1, 1.1))


def test_widths_beyond_the_fastest_do_not_bend_the_forms() -> None:
    rising = measured(Amdahl(0.8))
    fitted = fit_speedups([*rising, (32.0, 1.0), (64.0, 0.5)])
    assert fitted.fastest_gpus == 16
    assert fitted.fits[0].error_share < 1e-6


def test_a_job_that_only_gets_slower_does_not_scale() -> None:
    fitted = fit_speedups([(1, 10.0), (2, 9.0), (4, 8.0)])
    assert fitted.fastest_gpus == 1
    assert [fit.form for fit in fitted.fits] == ["amdahl", "power"]
    assert all(fit.speedup(64) == pytest.approx(1, abs=1e-4) for fit in fitted.fits)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([(2.0, 1.0)], "at least two widths must be measured"),
        ([], "at least one width must be given"),
        ([(1.0, 1.0), (1.0, 2.0)], "each width must come once"),
        ([(1.0, 1.0), (2.0, 0.0)], "must be > 0"),
        ([(0.5, 1.0), (2.0, 1.0)], "a width must be >= 1"),
    ],
)
def test_what_cannot_be_fitted_is_refused(points: list[tuple[float, float]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        fit_speedups(points)


rates = st.dictionaries(st.integers(1, 512), st.floats(1e-3, 1e6), min_size=2, max_size=12)


@given(rates, st.floats(1e-6, 1e6))
@settings(deadline=None, max_examples=60)
def test_laws_of_any_measurement(points: dict[int, float], unit: float) -> None:
    fitted = fit_speedups([(float(gpus), rate) for gpus, rate in points.items()])
    assert fitted.points[0][1] == pytest.approx(fitted.points[0][0])
    fastest = max(speedup for _, speedup in fitted.points)
    for gpus, speedup in fitted.points:
        assert fitted.table(gpus) >= speedup - 1e-9 * fastest
    for fit in fitted.fits:
        assert 0 <= fit.error_share <= fit.worst_error_share * (1 + 1e-9)
    again = normalised([(float(gpus), rate * unit) for gpus, rate in points.items()])
    assert [rate for _, rate in again] == pytest.approx([rate for _, rate in fitted.points])


def test_repeats_are_averaged_and_groups_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("model,run,gpus,throughput\na,1,1,10\na,2,1,12\na,1,2,20\nb,1,1,5\nb,1,2,9\n")
    found = read_measured(path, RowSelection(group=("model",)))
    assert [(series.group, series.points) for series in found] == [
        ({"model": "a"}, ((1.0, 11.0), (2.0, 20.0))),
        ({"model": "b"}, ((1.0, 5.0), (2.0, 9.0))),
    ]


def test_a_choice_of_columns_and_rows(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("gpu,n_gpus,iter_per_s,time_s\nA100,1,4,8\nT4,1,1,2\nA100,2,7,5\nT4,2,2,1\n")

    def rates_of(**choice: str) -> list[float]:
        (series,) = read_measured(path, RowSelection(where={"gpu": "T4"}, **choice))  # type: ignore[arg-type]
        assert isinstance(series, MeasuredSeries)
        return [rate for _, rate in series.points]

    assert rates_of(rate="iter_per_s") == [1, 2]
    assert rates_of(time="time_s") == [0.5, 1]
    with pytest.raises(InputError, match="name the one you mean"):
        rates_of()
    with pytest.raises(InputError, match="did you mean 'iter_per_s'"):
        rates_of(rate="iters_per_s")


@pytest.mark.parametrize(
    ("file", "choice"),
    [
        ("pollux-sia-time-to-target.csv", RowSelection(where={"hw": "aws"}, group=("app",))),
        ("elasticflow-fixed-batch.csv", RowSelection(group=("model", "gpu", "global_batch"))),
        ("mlperf-time-to-train.csv", RowSelection(group=("benchmark", "round", "submitter", "accelerator"))),
    ],
    ids=["pollux", "elasticflow", "mlperf"],
)
def test_real_measurements_are_read_and_fitted(real_data: Path, file: str, choice: RowSelection) -> None:
    found = read_measured(real_data / "speedups" / file, choice)
    assert len(found) >= 6
    for series in found:
        fitted = fit_speedups(series.points)
        assert fitted.fits
        assert all(fitted.table(gpus) >= rate * (1 - 1e-9) for gpus, rate in fitted.points)
