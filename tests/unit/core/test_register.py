"""Plug-ins are found by name, made from what users write, and refused helpfully."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest

from slacktide.allocators.base import allocators
from slacktide.core.errors import InputError, unknown_name
from slacktide.core.register import Register, kebab
from slacktide.market.forecast.base import forecasters
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.uniform_progress import UniformProgress
from slacktide.policies.view import Policy


def test_built_in_policies_are_found() -> None:
    assert {"on-demand", "maximal-spot", "uniform-progress", "deadline-guard"} <= set(policies)


def test_names_are_made_from_class_names() -> None:
    assert kebab("UniformProgress") == "uniform-progress"
    assert kebab("Ahap") == "ahap"


def test_policy_is_made_from_a_name_a_mapping_or_itself() -> None:
    assert policies.make("uniform-progress") == UniformProgress()
    assert policies.make({"uniform-progress": {"gang": True}}) == UniformProgress(gang=True)
    assert policies.make({"uniform-progress": None}) == UniformProgress()
    assert policies.make(UniformProgress(gang=True)) == UniformProgress(gang=True)
    nested = policies.make({"deadline-guard": {"inner": {"uniform-progress": {"gang": True}}}})
    assert nested == DeadlineGuard(UniformProgress(gang=True))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("uniform-progres", "did you mean 'uniform-progress'"),
        ({"uniform-progress": {"gan": True}}, "did you mean 'gang'"),
        ({"a": 1, "b": 2}, "one name with its parameters"),
        ({"uniform-progress": 3}, "parameters must be a mapping"),
        ({"deadline-guard": {"inner": "nobody"}}, "policy must be one of the known names"),
        ({"deadline-guard": {"inner": 3}}, "inner must be a policy"),
    ],
)
def test_bad_spec_is_refused(spec: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        policies.make(spec)


def test_every_policy_has_a_sentence() -> None:
    for name in policies:
        assert policies.summary(name).endswith(".")


@dataclass(frozen=True)
class Foreign:
    """Do nothing."""

    size: int


class Entry:
    name, value = "foreign", "other.package:Foreign"

    def load(self) -> type[Foreign]:
        return Foreign


class Broken(Entry):
    def load(self) -> type[Foreign]:
        raise ImportError("no module named other")


def _register(monkeypatch: pytest.MonkeyPatch, entry: Entry) -> Register[Policy]:
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry] if group == "g" else [])
    return Register("policy", packages=("slacktide.policies",), entry_points="g", papers=("of-a-paper",))


def test_third_party_joins_through_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    register = _register(monkeypatch, Entry())
    assert "foreign" in register
    with pytest.raises(InputError, match="parameter 'size' must be given"):
        register.make("foreign")
    assert register.parameters("foreign") == {"size": None}


def test_third_party_that_does_not_load_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"other\.package:Foreign.*no module named other"):
        list(_register(monkeypatch, Broken()))


def test_two_plugins_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        pass

    Other.__name__ = "Foreign"
    register = _register(monkeypatch, Entry())
    list(register)
    with pytest.raises(InputError, match="unique, got 'foreign' twice"):
        register.register(Other)  # type: ignore[arg-type]


def test_where_nothing_is_known_the_answer_says_so() -> None:
    assert unknown_name("a job", "x", ()) == "a job must be one of the known names, got 'x'; known: none"


def test_a_thread_that_asks_while_another_loads_waits_for_all() -> None:
    code = (
        "import threading; from slacktide.policies.base import policies; found = [];"
        "ask = lambda: found.append(('on-demand' in policies, 'ahap' in policies));"
        "threads = [threading.Thread(target=ask) for _ in range(4)];"
        "[one.start() for one in threads]; [one.join() for one in threads]; print(set(found))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "{(True, True)}"


class Gone(Entry):
    name, value = "of-a-paper", "papers.that.are.not.there:OfAPaper"

    def load(self) -> type[Foreign]:
        raise ModuleNotFoundError("no module named papers")


@pytest.mark.parametrize("entry", [Entry(), Gone()])
def test_a_name_of_the_papers_that_are_not_installed_is_answered_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, entry: Entry
) -> None:
    register = _register(monkeypatch, entry)
    with pytest.raises(
        InputError, match=r"'of-a-paper' is part of the papers' experiments.*--force-reinstall"
    ):
        register.make("of-a-paper")
    assert "of-a-paper" not in list(register)


@pytest.mark.parametrize("register", [policies, allocators, forecasters], ids=lambda one: one.kind)
def test_what_the_papers_bring_is_known_by_name_where_it_is_missing(register: Register[Any]) -> None:
    entries = metadata.entry_points(group=register._entry_points)
    assert {one.name for one in entries if one.value.startswith("slacktide_papers.")} == set(register._papers)


def test_a_name_imports_its_own_module_only() -> None:
    code = (
        "import sys; from slacktide.policies.base import policies; policies.make('maximal-spot');"
        "print([name for name in ('maximal_spot', 'ahap', 'stochastic_horizon')"
        " if f'slacktide.policies.{name}' in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['maximal_spot']"


@pytest.mark.parametrize("name", ["", "../base", "base", "a.b", "Ahap", "__init__"])
def test_words_that_are_no_names_are_not_found(name: str) -> None:
    assert name not in policies


@pytest.mark.parametrize("register", [policies, allocators, forecasters], ids=lambda one: one.kind)
def test_every_plugin_lies_where_its_name_says(register: Register[Any]) -> None:
    """A class in a module of another name would be found as well, but only after all modules are imported."""
    for name in register:
        assert register.get(name).__module__.rpartition(".")[2] == name.replace("-", "_")
