"""The wheel has all that the package needs and works apart from the repository; nothing is downloaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.parts_of_effort import THOROUGH

pytest.importorskip("build", reason="build is not installed: pip install build")
pytest.importorskip("hatchling", reason="hatchling is not installed: pip install hatchling")

ROOT = Path(__file__).parents[2]
SHIPPED = {
    "src/slacktide": "slacktide",
    "src/slacktide_papers": "slacktide_papers",
    "examples": "slacktide/examples",
}
LEFT_OUT = {"__pycache__", "checkpoints"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist of this repository, and the wheel that was built from that."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel."""
    [found] = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment in which only the wheel was installed; other packages are ours."""
    venv = tmp_path_factory.mktemp("apart") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), "install", "--quiet"]
    alone = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, *alone, str(wheel)], check=True)
    packages = next(venv.glob("lib/python*/site-packages"))
    # Path files in a folder that a path file names are not read: the editable install there is not seen.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv / "bin" / "slacktide"


def run(command: Path, *arguments: str, code: int = 0) -> str:
    """Run the installed command far from the repository and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {name: str(command.parent / name) for name in ("SLACKTIDE_HOME", "SLACKTIDE_CACHE")}
    words, folder = [str(command), *arguments], command.parent
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_all_that_the_package_needs_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, inside in SHIPPED.items():
        files = [path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*") if path.is_file()]
        wanted = {f"{inside}/{path}" for path in files if not LEFT_OUT & set(path.parts)}
        assert wanted <= names
    pages = {f"slacktide/report/pages/templates/{name}" for name in ("page.css", "base.html", "run.html")}
    assert {"slacktide/py.typed", "slacktide_papers/templates/reproduction.html", *pages} <= names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"slacktide", "slacktide_papers"}


def test_the_sdist_has_no_more_than_is_needed_to_build(built: Path) -> None:
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        tops = {name.split("/")[1] for name in sdist.getnames() if "/" in name}
    texts = {"README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    assert tops <= {"src", "examples", "pyproject.toml", ".gitignore", *texts}


def test_the_wheel_works_apart_from_the_repository(command: Path) -> None:
    assert "Rent GPUs for training jobs" in run(command, "--help")
    assert "Run the experiments" in run(command, "reproduce", "--help"), "plug-ins are found"
    assert "one-v100" in run(command, "examples")
    run(command, "examples", "one-v100")
    findings = json.loads(run(command, "doctor", "-o", "json"))["findings"]
    assert {one["name"] for one in findings} >= {"python", "cache"}
    job = command.parent / "one-v100.yaml"
    lines = job.read_text(encoding="utf-8").splitlines()
    hurried = ["deadline: 1h" if line.startswith("deadline:") else line for line in lines]
    (command.parent / "hurried.yaml").write_text("\n".join(hurried), encoding="utf-8")
    assert "the earliest deadline that can be met is" in run(command, "plan", "hurried.yaml", code=3)
    code = "import slacktide.demo.train, slacktide; print(slacktide.__file__)"
    where = run(command.parent / "python", "-c", code)
    assert where.startswith(str(command.parents[1]))


@pytest.mark.skipif(not os.environ.get(THOROUGH), reason="compiles everything again: a minute")
def test_the_wheel_plans_an_example(command: Path, tmp_path: Path) -> None:
    run(command, "examples", "llama-lora", str(tmp_path))
    assert "On time in" in run(command, "plan", str(tmp_path / "llama-lora.yaml"))
