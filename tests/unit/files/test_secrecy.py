"""No error about a job file tells a secret: seen was one that quoted it."""

from __future__ import annotations

import itertools
import traceback
from pathlib import Path

import pytest

from slacktide.app.jobs.submission import Submission
from slacktide.core.errors import InputError
from slacktide.core.yaml_tree import Mistakes, Scalar, Section, Series, Tree, parse_tree
from slacktide.files.job import parse_job, redacted, secret_words
from slacktide.files.rewrite import with_class, without_secrets

CANARY = "hunter2-canary/of+many=chars"
REST = """\
resources: {accelerators: "H100:1..4"}
work: 8 gpu-hours
deadline: 6h
run: python train.py
"""

FORMS = (
    "secrets: @", "secrets: '@'", "secrets: TOKEN=@", "secrets: [@]", "secrets: [TOKEN=@]", "secrets: {@}",
    "secrets: {TOKEN=@}", "secrets: {TOKEN=@: }", "secrets: {TOKEN=@, TOKEN=@}", "secrets: {'@ x': y}",
    "secrets: {TOKEN: [@]}", "secrets: {TOKEN: {value: @}}", "secrets: {TOKEN: !@ }",
    "secrets: {TOKEN: !@!x y}", "secrets: {TOKEN: &@ x}", "secrets: {TOKEN: *@ }", "secrets: {TOKEN: '@}",
    'secrets: {TOKEN: "@}', 'secrets: {TOKEN: "\\q@"}', 'secrets: {TOKEN: "\\U@"}',
    "secrets: {TOKEN: @", "secrets: TOKEN: @", "secrets:{TOKEN: @}", "secrets:{TOKEN=@}",
    "secrets:@", "secrets: |@", "secrets: >@\n  x", "secrets: %@",
    "secrets:\n  TOKEN=@", "secrets:\n  - @", "secrets:\n  - TOKEN: @", "secrets:\n  @: x: y",
    "secrets:\n\t@", "secrets:\n TOKEN: a\n  @: b", "secrets:\nTOKEN: @\n @",
    "secrets:\nTOKEN=@:", "secrets:\n@:\n",
    "secrets:\n  ? @ x\n  : y", "secrets:\n  ? {@: x}\n  : y", "secrets:\n  TOKEN: @\n  TOKEN: @",
    "secrets:\n  @ @: x\n  @ @: x", "secret: @", "secret:\n  TOKEN: @", "sercets: {TOKEN: @}\nsecrets: @",
    "name: x\n  secrets:{TOKEN=@}", "name: x\n  secrets=@", "name: x secrets=@", "name: secrets @",
    "work: secrets: @", "deadline: secrets={@}", "%secrets @", "--- secrets @", "--- @\n--- secrets",
    "secrets: {TOKEN: @}\n@", "secrets: {TOKEN: @}\ndedline: @", "secrets: {TOKEN: @}\nwork: @",
    "secrets: {TOKEN: @}\npolicy: {@: 1}", "secrets: {TOKEN: @}\nenvs: {@: 1}", "secrets: {TOKEN: @}\x07",
    "secrets: {TOKEN: @}\nname: '@ @'", "secrets: {TOKEN: @}\nretries: {@: 3}",
    "secrets: {TOKEN: @}\nmax_cost: @",
)  # fmt: skip
"""Ways to write secrets that are refused, or that lie beside something that is; @ is the secret."""

VALUES = (CANARY, "Pa55word:" + CANARY, CANARY * 3, "'" + CANARY)


def whole_story(error: BaseException) -> str:
    """Return all that anyone is told of an error: its message, and what it says it was caused by."""
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize("form", FORMS)
def test_no_error_about_a_broken_file_tells_a_secret(form: str) -> None:
    told: list[str] = []
    for value, before in itertools.product(VALUES, (True, False)):
        written = form.replace("@", value)
        text = f"{written}\n{REST}" if before else f"{REST}{written}\n"
        for cut in (len(text), text.rfind(value) + len(value), text.rfind(value) + len(value) // 2):
            try:
                parse_job(text[:cut])
            except InputError as error:
                told.append(whole_story(error))
    assert told, "this form is no mistake at all"
    assert not [story for story in told if "hunter2" in story]


def test_messages_still_say_what_is_wrong_and_where() -> None:
    with pytest.raises(InputError) as caught:
        parse_job(f"secrets: {{TOKEN: [{CANARY}]}}\nwork: 8\n{REST.replace('work', '#')}")
    first, second = str(caught.value).splitlines()
    assert first.endswith("1:11: the value of variable TOKEN must be text, got a list")
    assert "2:7: work must be a number with its unit" in second


def test_a_message_is_blotted_also_where_it_was_cut() -> None:
    words = secret_words("secrets: {A: abcdefgh, B: 'ijkl mnopq'}\nwork: 8 gpu-hours")
    assert words == {"abcdefgh", "ijkl", "mnopq"}
    assert redacted("got 'abcdef...' and mnopq at work", words) == "got '***...' and *** at work"


def test_a_secret_that_no_process_can_be_given_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(f"secrets: {{TOKEN: {CANARY}".encode() + b"\xff}\n" + REST.encode())
    with pytest.raises(InputError) as caught:
        Submission.read(str(path))
    assert "must be UTF-8" in str(caught.value)
    assert "hunter2" not in str(caught.value)


ODD = (
    "=", "<<", "~", "Null", "yes", "1_000", "0x1F", ".inf", "a #b", "'x'", '"\\t"', "|\n    a\n\n     b\n",
    ">-\n    a\n    b", "12:30:45", "2001-01-01", "2001-99-99", "é", '"\\u2028"', '"\\x85"', "'a\n\n    b'",
    "a\n    b", '[1, ~, "", a]', "{x: , y: 3}", "1e3", '"null"', "''", "😀", ":x", "a:b", "\\",
    "", "4", '"4"', "word " * 60,
)  # fmt: skip


def said(tree: Tree | None) -> object:
    """Return what a tree says, without its places."""
    match tree:
        case Scalar():
            return None if tree.null else (tree.text, tree.quoted)
        case Series():
            return [said(item) for item in tree.items]
        case Section():
            return {key: said(entry.value) for key, entry in tree.entries.items()}
    return None


@pytest.mark.parametrize("value", ODD)
def test_taking_secrets_out_changes_nothing_else(value: str) -> None:
    text = f"secrets: {{A: {CANARY}, B: }}  # once {CANARY}\nenvs:\n  X: {value}\n"
    before, after = (parse_tree(each, Mistakes("")) for each in (text, without_secrets(text)))
    assert CANARY not in without_secrets(text)
    assert said(after) == {**said(before), "secrets": {"A": None, "B": None}}  # type: ignore[dict-item]
    classed = parse_tree(with_class(text, "small"), Mistakes(""))
    assert said(classed) == {**said(before), "class": ("small", False)}  # type: ignore[dict-item]


def test_a_job_with_secrets_keeps_its_policys_parameters_and_what_it_takes_over() -> None:
    text = f"{REST}secrets: {{A: b}}\nenvs: {{C: , D: 4}}\npolicy: {{ahap: {{window: 4}}}}\n"
    assert parse_job(without_secrets(text)).policy == {"ahap": {"window": 4}}
    assert parse_job(with_class(text, "x")).envs == {"C": None, "D": "4"}
