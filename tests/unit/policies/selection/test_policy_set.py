"""The pools of policies to learn from, and their names."""

from __future__ import annotations

import pytest

from slacktide.core.errors import InputError
from slacktide.core.register import Spec
from slacktide.policies.base import policies
from slacktide.policies.selection.policy_set import AUTO_SET, FAVOURITE, name_of, prior_of, spec_of
from slacktide_papers.deadline.policy_set import PAPER_SET


def test_the_papers_pool_has_its_112_policies() -> None:
    kinds = [next(iter(spec)) for spec in PAPER_SET if not isinstance(spec, str)]
    assert (kinds.count("ahap"), kinds.count("ahanp"), len(PAPER_SET)) == (105, 7, 112)
    assert len({name_of(spec) for spec in PAPER_SET}) == 112


@pytest.mark.parametrize("spec", [*AUTO_SET, *PAPER_SET[::9]], ids=name_of)
def test_names_stand_for_specs_that_can_be_made(spec: Spec) -> None:
    assert spec_of(name_of(spec)) == spec
    assert hasattr(policies.make(spec), "decide")


def test_parameters_of_any_plain_kind_survive_their_name() -> None:
    spec = {"mine": {"word": "a(b)=c, d", "flag": True, "share": 0.1, "steps": [1, 2], "none": None}}
    assert spec_of(name_of(spec)) == spec
    assert name_of({"mine": None}) == "mine"


@pytest.mark.parametrize("name", ["", "a(b", "a(1)", "a(b=c)", "a(b=1)x"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="an arm must be named"):
        spec_of(name)


def test_the_favourite_leads_on_the_first_day() -> None:
    names = tuple(name_of(spec) for spec in AUTO_SET)
    prior = prior_of(names)
    assert sum(prior.values()) == pytest.approx(1.0)
    assert max(prior, key=lambda name: prior[name]) == FAVOURITE
    assert set(prior_of(("x", "y")).values()) == {0.5}
