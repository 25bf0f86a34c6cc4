"""What `make` installs is pinned with hashes, and holds all that the package can use."""

from __future__ import annotations

import re
import tomllib

from tests.lock_pins import LOCK, pins

ROOT = LOCK.parent
TORCH = ROOT / "requirements-torch.lock"


def entries() -> list[str]:
    """Return the pins of the lock, each with what follows it."""
    lines = [line for line in LOCK.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return re.sub(r"\\\n\s*", " ", "\n".join(lines)).split("\n")


def test_every_pin_has_hashes_and_nothing_says_where_they_are_from() -> None:
    for entry in filter(str.strip, entries()):
        assert re.fullmatch(r"[a-z0-9.-]+==[^ ]+( ; [^\\]+?)?( +--hash=sha256:[0-9a-f]{64})+ *", entry), entry
    assert "//" not in LOCK.read_text(encoding="utf-8")


def test_all_that_the_package_and_its_extras_need_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = {**pins(LOCK.read_text(encoding="utf-8")), **pins(TORCH.read_text(encoding="utf-8"))}
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    for needed in [*project["dependencies"], *extras]:
        name = re.split(r"[<>=!~;\[ ]", needed)[0]
        assert re.sub(r"[-_.]+", "-", name).lower() in known, needed


def test_the_container_has_nothing_but_files_of_the_lock() -> None:
    text = re.sub(r"\\\n", "", (ROOT / "Containerfile").read_text(encoding="utf-8"))
    fetched = [part for part in text.split("&&") if re.search(r"pip (download|install)", part)]
    assert len(fetched) == 2
    assert all("--require-hashes" in part or "--no-index" in part for part in fetched)


def test_pins_are_read_with_or_without_hashes_and_after_a_merge_that_failed() -> None:
    text = """# why
<<<<<<< HEAD
Some_Package==1.9.0 \\
    --hash=sha256:00
=======
some-package==1.10.0
only.windows==2 ; sys_platform == 'win32' \\
>>>>>>> other
"""
    assert pins(text) == {
        "only-windows": "only-windows==2 ; sys_platform == 'win32'",
        "some-package": "some-package==1.10.0",
    }


def test_the_lock_is_named_where_people_look() -> None:
    assert "make lock" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
