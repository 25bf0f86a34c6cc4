"""Setting a key in a TOML file changes its line and nothing else; removing one removes its line."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slacktide.app.settings.toml_text import places, with_value, without
from slacktide.core.errors import InputError

TEXT = """# mine
journal = "a#b.db"   # a comment # and more

[profiles.lab]  # the lab
server = "http://lab"
[defaults.jobs]
output = "json"
"""


def test_a_value_is_changed_in_its_line_and_its_comment_stays() -> None:
    made = with_value(TEXT, ("journal",), "c.db")
    assert made == TEXT.replace('"a#b.db"   #', '"c.db"  #')


def test_a_key_is_added_behind_the_last_one_of_its_table() -> None:
    made = with_value(TEXT, ("market",), "synthetic:h100")
    assert made.splitlines()[2] == 'market = "synthetic:h100"'
    made = with_value(TEXT, ("profiles", "lab", "spot_usd"), 2.5)
    assert made.splitlines()[5] == "spot_usd = 2.5"


def test_a_table_that_is_not_there_comes_to_the_end() -> None:
    made = with_value(TEXT, ("profiles", "my lab", "journal"), "x")
    assert made == TEXT + '\n[profiles."my lab"]\njournal = "x"\n'
    assert with_value("", ("journal",), "x") == 'journal = "x"\n'


@pytest.mark.parametrize("text", ['journal = """\nx\n"""\n', 'profiles = {lab = {server = "http://x"}}\n'])
def test_what_is_not_in_one_line_is_left_to_the_user(text: str) -> None:
    path = ("journal",) if "journal" in text else ("profiles", "lab", "server")
    with pytest.raises(InputError, match="must be set by hand"):
        with_value(text, path, "y")


def test_a_key_is_removed_with_its_line_and_all_else_stays() -> None:
    assert without(TEXT, ("journal",)) == TEXT.replace('journal = "a#b.db"   # a comment # and more\n', "")
    assert without(TEXT, ("profiles", "lab", "server")) == TEXT.replace('server = "http://lab"\n', "")
    assert without('journal = "x"\n', ("journal",)) == ""


@pytest.mark.parametrize("path", [("market",), ("journal", "x"), ("profiles", "home", "server")])
def test_a_key_that_is_not_there_is_not_removed(path: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="must be set in this file"):
        without(TEXT, path)


@pytest.mark.parametrize("text", ['journal = """\nx\n"""\n', "journal = {x = 1}\n"])
def test_what_is_no_line_of_its_own_is_removed_by_the_user(text: str) -> None:
    with pytest.raises(InputError, match="must be removed by hand"):
        without(text, ("journal",) if '"""' in text else ("journal", "x"))


def test_the_line_of_every_key_is_known() -> None:
    found = places(TEXT)
    assert found["journal",] == 2
    assert found["profiles", "lab"] == 4
    assert found["defaults", "jobs", "output"] == 7


@given(st.text(), st.sampled_from([("journal",), ("market",), ("profiles", "lab", "x"), ("new", "one")]))
def test_whatever_is_set_is_read_back_and_all_else_stays(value: str, path: tuple[str, ...]) -> None:
    try:
        made = with_value(TEXT, path, value)
    except InputError:
        assert "\x7f" in value or any("\ud800" <= letter <= "\udfff" for letter in value)
        return
    tree: object = tomllib.loads(made)
    for name in path:
        assert isinstance(tree, dict)
        tree = tree[name]
    assert tree == value
    assert [line for line in TEXT.splitlines() if line not in made.splitlines()] in (
        [],
        [TEXT.splitlines()[1]],
    )
