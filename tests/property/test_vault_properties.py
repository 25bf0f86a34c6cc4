"""Kills at any write, two attempts that both save: what is loaded is whole, and never older than promised."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.backends.checkpoints.vault import Fenced, Vault
from slacktide.files.store_url import open_store
from tests.parts_of_effort import examples


class Killed(BaseException):
    """The process ends here: nothing after this happens, no clean-up either."""


class Mortal:
    """A store whose user is killed at its n-th change, also in the middle: then half of it is there."""

    type_name = "local"

    def __init__(self, store: Any, lives: int) -> None:
        self.store, self.lives = store, lives

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def _live(self) -> None:
        self.lives -= 1
        if self.lives < 0:
            raise Killed

    def move(self, source: str, target: str) -> None:
        self._live()
        self.store.move(source, target)
        self._live()

    def delete_file(self, path: str) -> None:
        self._live()
        self.store.delete_file(path)

    def create_dir(self, path: str, *, recursive: bool) -> None:
        self._live()
        self.store.create_dir(path, recursive=recursive)

    def open_output_stream(self, path: str) -> Any:
        self._live()
        return _Stream(self, self.store.open_output_stream(path))


class _Stream:
    def __init__(self, mortal: Mortal, stream: Any) -> None:
        self.mortal, self.stream = mortal, stream

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def write(self, part: bytes) -> None:
        self.stream.write(part[: len(part) // 2])
        self.mortal._live()
        self.stream.write(part[len(part) // 2 :])


steps = st.lists(
    st.tuples(
        st.integers(1, 3),  # the attempt
        st.sampled_from(["ab", "bc", "c", "abc"]),  # which files it has
        st.integers(0, 40),  # how many changes it lives for
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(120), deadline=None)
@given(steps=steps, keep=st.integers(1, 2), kept_s=st.sampled_from([0.0, 3600.0]))
def test_what_is_loaded_was_saved_and_is_not_older_than_acknowledged(
    steps: list[tuple[int, str, int]], keep: int, kept_s: float
) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "store").mkdir()
        tried: dict[float, dict[str, bytes]] = {}
        acknowledged: list[tuple[int, float]] = []
        for number, (attempt, files, lives) in enumerate(steps, start=1):
            share = number / 100
            tried[share] = {file: f"{file}{number // 2}".encode() for file in files}
            work = _folder(place / "work", tried[share])
            store, root = open_store(f"file://{place}/store")
            vault = Vault(Mortal(store, lives), root, "journal", "job", streams=1, kept_s=kept_s)
            try:
                vault.save(work, attempt, share)
                acknowledged.append((attempt, share))
                vault.retain(keep)
            except (Killed, Fenced):
                pass
            _check(place, tried, acknowledged)


def _folder(folder: Path, files: dict[str, bytes]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def _check(place: Path, tried: dict[float, dict[str, bytes]], acknowledged: list[tuple[int, float]]) -> None:
    vault = Vault(*open_store(f"file://{place}/store"), "journal", "job", streams=1)
    loaded = vault.restore(place / "new", 0)
    if loaded is None:
        assert not acknowledged
        return
    files = [path for path in (place / "new").iterdir() if not path.name.startswith(".slacktide")]
    assert {path.name: path.read_bytes() for path in files} == tried[loaded.done_share]
    assert not acknowledged or (loaded.attempt, loaded.done_share) >= max(acknowledged)
