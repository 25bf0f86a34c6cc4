"""Jobs that come over the network: what they bring, and what they may not ask of the server."""

from __future__ import annotations

import errno
import hashlib
import io
import stat
import zipfile
from pathlib import Path

import pytest

from slacktide.app.task_requests import SubmitRequest
from slacktide.backends.machines.launch_package import zipped
from slacktide.core.errors import BackendError, InfeasibleError, InputError
from slacktide.engine.job.launch_spec import came_over_network, secrets_of
from slacktide.service.uploads import uploads as module
from slacktide.service.uploads.job_checks import checked
from slacktide.service.uploads.uploads import Uploads, unpack
from tests.unit.app.parts_of_admission import JOB


def asked(more: str = "", text: str = JOB, **given: object) -> SubmitRequest:
    return SubmitRequest(text=text + more, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("policy: os:PathLike\n", "registered one"),
        ("policy: {deadline-guard: {policy: 'os:PathLike'}}\n", "registered one"),
        ("market: /etc/passwd\n", "leave its market to the server"),
        ("market: 'synthetic:h100,/etc/passwd'\n", "leave its market to the server"),
        ("market: feed:prices.csv\n", "leave its market to the server"),
        ("speedup: {csv: /etc/passwd}\n", "must say its speedup itself"),
        ("speedup: {csv: {file: /etc/passwd}}\n", "must say its speedup itself"),
        ("work: {speedup: {csv: /etc/passwd}}\n", "must say its speedup itself"),
        ("phases: [{work: 1 gpu-hours, speedup: {csv: /etc/passwd}}]\n", "must say its speedup itself"),
        ("workdir: /etc\n", "below the job file's folder"),
        ("workdir: a/../../b\n", "below the job file's folder"),
        ("envs: {HOME: }\n", "variable HOME must come with the job"),
        ("secrets: {HOME: }\n", "secret HOME must come with the job"),
    ],
)
def test_a_job_cannot_have_what_is_the_servers(more: str, said: str) -> None:
    key = more.partition(":")[0]
    text = "\n".join(line for line in JOB.splitlines() if not line.startswith(f"{key}:")) + "\n"
    with pytest.raises(InputError, match=said):
        checked(asked(more, text))


def test_a_policy_of_the_request_is_not_loaded_either() -> None:
    for policy in ("os:PathLike", '{"os:PathLike": {}}', '{"ahap": {"inner": ["os:PathLike"]}}'):
        with pytest.raises(InputError, match="registered one"):
            checked(asked(policy=policy))
    with pytest.raises(InputError, match="a name, or an object"):
        checked(asked(policy="[1]"))
    checked(asked(policy="on-demand"))
    with pytest.raises(InfeasibleError):
        checked(asked(text=JOB.replace("deadline: 12h", "deadline: 1m")))
    with pytest.raises(InputError, match="name of a job file"):
        checked(asked(name="../job.yaml"))


def test_values_travel_beside_the_job_file(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    request = asked(
        "envs: {A: }\nsecrets: {B: , C: written}\n", envs={"A": "1", "Z": "no"}, secrets={"B": "2"}
    )
    made = uploads.submission(request, "k")
    assert made.envs == {"A": "1", "B": "2", "C": "written"}
    assert "written" not in made.text
    assert "written" not in Path(made.file.path).read_text(encoding="utf-8")
    assert came_over_network(made.file.path)
    assert secrets_of(made.file, made.envs) == {"A": "1", "B": "2", "C": "written"}


def test_a_lost_value_is_not_looked_for_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("B", "of the server")
    made = Uploads(tmp_path).submission(asked("secrets: {B: }\n", secrets={"B": "2"}), "k")
    with pytest.raises(InputError, match="submit it again"):
        secrets_of(made.file, {})


def sent(uploads: Uploads, content: bytes) -> str:
    """Send a zipped folder as a client does."""
    digest, draft = hashlib.sha256(content).hexdigest(), uploads.zips.draft()
    draft.write_bytes(content)
    uploads.zips.keep(draft, digest, digest)
    return digest


def test_a_working_folder_comes_along(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "train.py").write_text("print()", encoding="utf-8")
    (folder / "go.sh").write_text("true", encoding="utf-8")
    (folder / "go.sh").chmod(0o755)
    uploads = Uploads(tmp_path / "runs")
    digest = sent(uploads, zipped(folder))
    made = uploads.submission(asked("workdir: code\n", workdir=digest), "k")
    home = Path(made.file.path).parent
    assert (home / "code" / "src" / "train.py").read_text(encoding="utf-8") == "print()"
    assert stat.S_IMODE((home / "code" / "go.sh").stat().st_mode) == 0o700
    assert uploads.submission(asked("workdir: code\n", workdir=digest), "k").file.path == made.file.path
    uploads.drop("k")
    assert not home.exists()


def test_an_upload_is_what_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uploads = Uploads(tmp_path)
    draft = uploads.zips.draft()
    draft.write_bytes(b"x")
    with pytest.raises(InputError, match="SHA-256"):
        uploads.zips.keep(draft, hashlib.sha256(b"x").hexdigest(), "0" * 64)
    assert not draft.exists()
    with pytest.raises(InputError, match="SHA-256 in hex"):
        uploads.zips.has("../../etc/passwd")
    with pytest.raises(InputError, match="sent before the job"):
        uploads.submission(asked(workdir="0" * 64), "k")
    digest = sent(uploads, b"x")
    uploads.zips.tidy(1e12)
    assert not uploads.zips.has(digest)
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 1)
    with pytest.raises(BackendError, match="working folders that wait"):
        Uploads(tmp_path).zips.draft()


def archive(*names: str, link: bool = False) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o120777 if link else 0o644) << 16
            made.writestr(entry, "x" * 100)
    return out.getvalue()


def test_a_zip_file_stays_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (archive("../out"), archive("/etc/out"), archive("a\\..\\b"), archive("link", link=True)):
        with pytest.raises(InputError, match="plain files below it"):
            unpack(content, tmp_path / "in")
    for broken in (b"no zip", archive("a")[:60]):
        with pytest.raises(InputError, match="zip file"):
            unpack(broken, tmp_path / "in")
    monkeypatch.setattr(module, "MOST_UNPACKED_BYTES", 150)
    with pytest.raises(InputError, match="got more"):
        unpack(archive("a", "b"), tmp_path / "in")
    assert not (tmp_path / "in").exists()


def test_a_full_disk_is_the_server_s_trouble_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = Uploads(tmp_path)
    digest = sent(uploads, archive("a.txt"))

    def full(*given: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for place in ("slacktide.core.files.os.replace", "slacktide.service.uploads.uploads.shutil.copyfileobj"):
        with monkeypatch.context() as patched:
            patched.setattr(place, full)
            with pytest.raises(BackendError, match=r"disk of the server must take .* No space left"):
                uploads.submission(asked(workdir=digest), "k")
        assert uploads.folders() == []
        assert not list(uploads.folder.glob(".*-*"))
    assert uploads.submission(asked(workdir=digest), "k").key == "k"
