"""Pictures name policies shortly, and tell two of one name apart by what differs."""

from __future__ import annotations

from slacktide.report.figures.drawing.style import short_names


def test_a_policy_is_named_without_its_parameters() -> None:
    assert short_names(["fixed-width(budget_gpus=8.175)", "on-demand"]) == {
        "fixed-width(budget_gpus=8.175)": "fixed-width",
        "on-demand": "on-demand",
    }


def test_two_of_one_name_are_told_apart_by_what_differs() -> None:
    names = ["ahap(window=3,price_threshold=0.6)", "ahap(window=8,price_threshold=0.6)", "ahanp"]
    assert list(short_names(names).values()) == ["ahap (window 3)", "ahap (window 8)", "ahanp"]
    assert list(short_names(["ahap", "ahap(window=8)"]).values()) == ["ahap", "ahap (window 8)"]


def test_a_policy_inside_a_policy_is_one_parameter() -> None:
    inner = ["deadline-guard(inner=ahap(window=3,commitment=1))", "deadline-guard(inner=on-demand)"]
    assert list(short_names(inner).values()) == [
        "deadline-guard (inner ahap(window=3,commitment=1))"[: 44 - 1] + "…",
        "deadline-guard (inner on-demand)",
    ]


def test_names_that_cannot_be_shortened_stay_whole() -> None:
    assert list(short_names(["a(1)", "a(2)"]).values()) == ["a(1)", "a(2)"]
    assert short_names(["(odd)"]) == {"(odd)": "(odd)"}
