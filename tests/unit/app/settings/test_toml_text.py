"""Setting a key in a TOML file changes its value and nothing else; removing one removes its line."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slacktide.app.settings.files import key_lines, with_value, without
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
    assert made == TEXT.replace('"a#b.db"', '"c.db"')


def test_a_key_is_added_behind_the_last_one_of_its_table() -> None:
    made = with_value(TEXT, ("market",), "synthetic:h100")
    assert made.splitlines()[2] == 'market = "synthetic:h100"'
    made = with_value(TEXT, ("profiles", "lab", "spot_usd"), 2.5)
    assert made.splitlines()[5] == "spot_usd = 2.5"


def test_a_comment_above_a_table_stays_above_it() -> None:
    text = 'journal = "x"\n\n# the lab\n[profiles.lab]\nserver = "s"\n\n# jobs\n[defaults.jobs]\ncap = 1\n'
    assert with_value(text, ("market",), "m") == text.replace('"x"\n', '"x"\nmarket = "m"\n')
    path = ("profiles", "lab", "market")
    assert with_value(text, path, "m") == text.replace('"s"\n', '"s"\nmarket = "m"\n')


def test_a_table_that_is_not_there_comes_behind_its_siblings_or_to_the_end() -> None:
    made = with_value(TEXT, ("profiles", "my lab", "journal"), "x")
    assert made == TEXT.replace("[defaults", '\n[profiles."my lab"]\njournal = "x"\n[defaults')
    assert with_value(TEXT, ("new", "journal"), "x") == TEXT + '\n[new]\njournal = "x"\n'
    assert with_value("", ("journal",), "x") == 'journal = "x"\n'
    assert with_value("", ("a", "b", "c"), "x") == '[a.b]\nc = "x"\n'


def test_values_of_several_lines_and_tables_in_one_line_are_changed_too() -> None:
    assert with_value('journal = """\nx\n""" # mine\n', ("journal",), "y") == 'journal = "y" # mine\n'
    lab = 'profiles = {lab = {server = "x"}} # mine\n'
    assert with_value(lab, ("profiles", "lab", "server"), "y") == lab.replace('"x"', '"y"')
    made = tomllib.loads(with_value(lab, ("profiles", "lab", "market"), "m"))
    assert made == {"profiles": {"lab": {"server": "x", "market": "m"}}}
    dotted = 'profiles.lab.server = "x"\n[defaults.jobs]\noutput = "json"\n'
    made = tomllib.loads(with_value(dotted, ("profiles", "lab", "market"), "m"))
    assert made["profiles"] == {"lab": {"server": "x", "market": "m"}}


def test_a_key_cannot_be_put_into_what_is_no_table() -> None:
    with pytest.raises(InputError, match=r"journal must be a table to hold x, got 'a#b\.db'"):
        with_value(TEXT, ("journal", "x"), "y")
    with pytest.raises(InputError, match="market must be text in UTF-8"):
        with_value(TEXT, ("market",), "\udc80")


def test_a_key_is_removed_with_its_line_and_all_else_stays() -> None:
    assert without(TEXT, ("journal",)) == TEXT.replace('journal = "a#b.db"   # a comment # and more\n', "")
    assert without(TEXT, ("profiles", "lab", "server")) == TEXT.replace('server = "http://lab"\n', "")
    assert without('journal = "x"\n', ("journal",)) == ""


@pytest.mark.parametrize("path", [("market",), ("journal", "x"), ("profiles", "home", "server")])
def test_a_key_that_is_not_there_is_not_removed(path: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="must be set in this file"):
        without(TEXT, path)


def test_a_key_without_a_line_of_its_own_is_removed_too() -> None:
    assert without('journal = """\nx\n"""\n# end\n', ("journal",)) == "# end\n"
    assert without("journal = {x = 1, y = 2}\n", ("journal", "x")) == "journal = { y = 2}\n"


def test_the_line_of_every_key_is_known() -> None:
    found = key_lines(TEXT)
    assert found["journal",] == 2
    assert found["profiles", "lab"] == 4
    assert found["defaults", "jobs", "output"] == 7


@given(st.text(), st.sampled_from([("journal",), ("market",), ("profiles", "lab", "x"), ("new", "one")]))
def test_whatever_is_set_is_read_back_and_all_else_stays(value: str, path: tuple[str, ...]) -> None:
    try:
        made = with_value(TEXT, path, value)
    except InputError:
        assert any("\ud800" <= letter <= "\udfff" for letter in value)
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
