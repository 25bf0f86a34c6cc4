"""The laws of the campaigns with real processes can be broken: each finds evidence that was made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.finding import Finding
from campaigns.stage import laws
from campaigns.stage.arena import Arena, Task
from campaigns.stage.record import Life, Record, digest_of


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    """A folder with one job of 40 units, laid out but with nobody in it."""
    made = Arena(tmp_path)
    made.write(Task(name="job", units=40))
    return made


def save(arena: Arena, units: int, digest: int | None = None) -> None:
    folder = arena.checkpoints("job")
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{units} {digest_of(units) if digest is None else digest}"
    (folder / "state").write_text(text, encoding="ascii")


def test_a_success_needs_all_of_its_work(arena: Arena) -> None:
    save(arena, 40)
    laws.work_is_whole(arena, "job")
    save(arena, 39)
    with pytest.raises(Finding, match="39 of 40 units are done"):
        laws.work_is_whole(arena, "job")


def test_units_that_were_left_out_or_done_twice_show(arena: Arena) -> None:
    save(arena, 40, digest_of(39))
    with pytest.raises(Finding, match="not each done once and in order"):
        laws.work_is_whole(arena, "job")


def test_an_attempt_that_goes_back_behind_a_checkpoint_shows(arena: Arena) -> None:
    save(arena, 40)
    arena.record("job").diary_path.write_text("began 0 1\nsaved 10\nbegan 5 2\nsaved 40\n", encoding="ascii")
    with pytest.raises(Finding, match="did saved work again"):
        laws.work_is_whole(arena, "job")


def life(attempt: int, from_s: float, to_s: float, rank: int = 0) -> Life:
    return Life(attempt, rank, "spot", from_s, to_s)


def test_an_attempt_that_comes_late_or_twice_shows() -> None:
    laws.attempts_only_grow("job", [life(1, 0, 1), life(1, 0, 1, rank=1), life(4, 2, 3)])
    with pytest.raises(Finding, match="attempt 1 began after attempt 4"):
        laws.attempts_only_grow("job", [life(4, 0, 1), life(1, 2, 3)])
    with pytest.raises(Finding, match="rank 0 of attempt 1 began 2 times"):
        laws.attempts_only_grow("job", [life(1, 0, 1), life(1, 2, 3)])


def test_two_sets_of_workers_at_once_show() -> None:
    laws.one_set_at_a_time("job", [life(1, 0, 1), life(2, 1, 3)])
    with pytest.raises(Finding, match=r"attempt 2 began 0.50 s before the last sign of life of attempt 1"):
        laws.one_set_at_a_time("job", [life(1, 0, 1), life(2, 0.5, 3)])


def test_the_record_of_a_worker_ends_with_its_last_sign_of_life(tmp_path: Path) -> None:
    (tmp_path / "starts").write_text("1 0 spot 77 10.00\n2 0 on-demand 78 20.00\n", encoding="ascii")
    (tmp_path / "alive-1-0-77").write_text(f"{12.5:020.3f}", encoding="ascii")
    assert Record(tmp_path).lives() == [Life(1, 0, "spot", 10.0, 12.5), Life(2, 0, "on-demand", 20.0, 20.0)]


@pytest.mark.parametrize(("billed_hours", "fine"), [(2.0, True), (0.4, False), (9.0, False)])
def test_more_or_less_on_the_bill_than_was_held_shows(
    billed_hours: float, fine: bool, arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    from campaigns.recount import Held
    from campaigns.stage import told

    folder = arena.record("job").folder
    (folder / "starts").write_text("1 0 spot 77 10.00\n", encoding="ascii")
    (folder / "alive-1-0-77").write_text(f"{14.0:020.3f}", encoding="ascii")  # four seconds are two hours
    held = Held("job", "zone", 0, billed_hours, 1, 0, 2.0, 10.0)
    monkeypatch.setattr(told, "held", lambda journal, prices: [held])
    monkeypatch.setattr(told, "rows", lambda journal, *kinds: [])
    if fine:
        laws.only_what_was_held_is_billed(arena, "job")
    else:
        with pytest.raises(Finding, match=r"are billed, but its 1 workers lived 4\.00 s"):
            laws.only_what_was_held_is_billed(arena, "job")
