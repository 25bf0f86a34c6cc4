"""Shell completion: the script of each shell, and what it is answered."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from slacktide.cli import run


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", "data/bash-completion/completions/slacktide"),
        ("zsh", "data/zsh/site-functions/_slacktide"),
        ("fish", "config/fish/completions/slacktide.fish"),
    ],
)
def test_a_script_is_printed_or_installed(
    shell: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_SLACKTIDE_COMPLETE={shell}_complete" in script
    assert run(["completion", shell, "--install"]) == 0
    assert (tmp_path / file).read_text().strip() == script.strip()
    assert "start a new shell" in capsys.readouterr().err
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(tmp_path / file)], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("slacktide prov", "plain,providers"),
        ("slacktide jobs --sta", "plain,--state"),
        ("slacktide cost -o c", "plain,csv"),
    ],
)
def test_a_shell_is_answered(
    words: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_SLACKTIDE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit):
        run([])
    assert capsys.readouterr().out.splitlines() == [expected]
