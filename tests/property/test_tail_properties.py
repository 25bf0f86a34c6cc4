"""A progress file says the same in whatever pieces it is written and read."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slacktide.backends.workers.progress import Tail

SHARE = st.floats(-0.5, 1.5)
LINES = st.one_of(
    st.builds(lambda done: b'{"done": %r}\n' % done, SHARE),
    st.builds(lambda done, kept: b'{"done": %r, "checkpointed": %r}\n' % (done, kept), SHARE, SHARE),
    st.builds(lambda loss: b'{"metrics": {"loss": %r}}\n' % loss, SHARE),
    st.binary(max_size=12).map(lambda noise: noise + b"\n"),
)


@given(st.lists(LINES, max_size=12).map(b"".join), st.lists(st.integers(1, 40), max_size=30))
def test_pieces_make_no_difference(content: bytes, sizes: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "progress.jsonl"
        piecewise = Tail(path, 0.0)
        with path.open("ab", buffering=0) as file:
            rest = content
            for size in sizes:
                file.write(rest[:size])
                rest = rest[size:]
                piecewise.poll(0.0)
            file.write(rest)
        piecewise.poll(0.0)
        at_once = Tail(path, 0.0)
    assert piecewise.progress == at_once.progress
    assert piecewise.broken_lines == at_once.broken_lines
    assert 0 <= piecewise.progress.checkpointed_share <= piecewise.progress.done_share <= 1
