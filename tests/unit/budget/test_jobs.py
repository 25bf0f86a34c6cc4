"""Recorded streams: what is read, and how mistakes are answered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slacktide.budget.classes import JobClass
from slacktide.core.errors import FileError
from slacktide.core.speedup import Amdahl, Power
from slacktide.core.types import Job, Phase
from slacktide.files.fleet.recorded_jobs import read_jobs

CLASSES = (
    JobClass(Job(name="bert", work_gpu_hours=2.0, speedup=Power(0.5)), arrivals_per_hour=1.0),
    JobClass(
        Job(name="ncf", phases=(Phase(1.0, Power(0.5)), Phase(2.0, Amdahl(1.0))), widths=(1, 4)),
        arrivals_per_hour=1.0,
    ),
)


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_seconds_classes_and_columns_of_no_concern(tmp_path: Path) -> None:
    text = "name,time,application,batch_size\nx,3600,bert,7\ny,0,ncf,8\nz,10800,bert,9\n"
    stream = read_jobs(written(tmp_path, text), CLASSES, sizes="fixed")
    # Sorted; the stream begins one mean gap, an hour and a half, before its first job.
    assert stream.arrival_hours.tolist() == [1.5, 2.5, 4.5]
    assert stream.class_index.tolist() == [1, 0, 0]
    assert stream.size.tolist() == [1.0, 1.0, 1.0]


def test_work_is_read_as_a_multiple_of_the_class(tmp_path: Path) -> None:
    text = "arrival_hours,class,work_gpu_hours\n0,bert,4\n1,ncf,6\n"
    assert read_jobs(written(tmp_path, text), CLASSES, sizes="fixed").size.tolist() == [2.0, 2.0]


def test_a_run_on_some_gpus_says_how_much_work_it_was(tmp_path: Path) -> None:
    text = "submit_s,class,duration_s,num_gpus\n0,bert,3600,16\n1,ncf,2700,16\n"
    # On sixteen GPUs a usual bert takes 2 / 4 hours, a usual ncf 1 / 4 + 2 / 16.
    assert read_jobs(written(tmp_path, text), CLASSES, sizes="fixed").size.tolist() == [2.0, 2.0]


def test_sizes_are_drawn_by_seed_where_the_file_does_not_tell_them(tmp_path: Path) -> None:
    path = written(tmp_path, "arrival_hours,class\n" + "".join(f"{n},bert\n" for n in range(20)))
    one, other, third = (read_jobs(path, CLASSES, sizes="lognormal", seed=seed).size for seed in (1, 1, 2))
    assert np.array_equal(one, other)
    assert not np.array_equal(one, third)


def test_one_class_needs_no_column(tmp_path: Path) -> None:
    stream = read_jobs(written(tmp_path, "submit_s,vc\n0,x\n7200,x\n"), CLASSES[:1], sizes="fixed")
    assert stream.arrival_hours.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a header, got no text"),
        ("time,class\n", "at least one job, got none"),
        ("when,class\n1,bert\n", "jobs.csv:1: one column must say when jobs arrived"),
        ("time,submit_s,class\n1,1,bert\n", "got submit_s and time"),
        ("time,kind\n1,bert\n", "jobs.csv:1: a column 'class' or 'application'"),
        ("time,class\n1,bert\n2,brt\n", "jobs.csv:3: .*did you mean 'bert'"),
        ("time,class\n1,bert\nsoon,bert\n", "jobs.csv:3: column 'time' must be a number, got 'soon'"),
        ("time,class\n1,bert\nnan,bert\n", "jobs.csv:3: column 'time' must be a number"),
        ("time,class\n1,bert\n2\n", "jobs.csv:3: column 'class': .*got ''"),
        ("time,class,work_gpu_hours\n1,bert,-3\n", "jobs.csv:2: column 'work_gpu_hours' must be > 0, got -3"),
        ("time,class,duration_s\n1,bert,5\n", "'duration_s' must come with 'num_gpus'"),
        ("time,class,duration_s,num_gpus\n1,bert,5,0\n", "jobs.csv:2: column 'num_gpus' must be > 0"),
        ("time,class,class\n1,bert,bert\n", "got 'class' twice"),
    ],
    ids=str,
)
def test_mistakes_are_answered_with_their_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FileError, match=words):
        read_jobs(written(tmp_path, text), CLASSES, sizes="fixed")


def test_real_traces_are_read(real_data: Path) -> None:
    names = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
    classes = [JobClass(Job(name=name, work_gpu_hours=1.0), arrivals_per_hour=1.0) for name in names]
    assert len(read_jobs(real_data / "jobs" / "pollux-1.csv", classes, sizes="fixed")) == 160
    assert len(read_jobs(real_data / "jobs" / "sia-newtrace-1.csv", classes, sizes="fixed")) == 960
    philly = read_jobs(real_data / "jobs" / "philly-vc-ee9e8c.csv", classes[:1], sizes="fixed")
    assert len(philly) == 1511
    assert philly.size.std() / philly.size.mean() > 2  # heavy-tailed
