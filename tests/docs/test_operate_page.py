"""The page for operators names metrics that the service has, and its rules use labels that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from slacktide.app.alerts.outbox import HookStatus
from tests.unit.service.parts_of_api import House, StubRunner

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/operate.md").read_text(encoding="utf-8")
OF_THE_SCRAPE = ("job", "instance")
"""Labels that Prometheus itself adds: those of a sample are then stored with `exported_` before them."""
PARTS = ("_bucket", "_sum", "_count")
"""What a histogram's name ends with, in its samples."""


@pytest.fixture
def metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What `/metrics` says after a job has run, with a hook for alerts."""
    hook = HookStatus("pager", 1, 0, 1, 0, 0, None, None, None)
    monkeypatch.setattr(StubRunner, "hooks", lambda self: [hook])
    house = House(tmp_path)
    house.run_a_job()
    yield house.ask("GET", "/metrics").body.decode()
    house.close()


def families(metrics: str) -> set[str]:
    """Return the names of all metrics."""
    return set(re.findall(r"^# TYPE (\w+)", metrics, re.M))


def labels_of(metrics: str) -> dict[str, set[str]]:
    """Return the labels of each metric as Prometheus stores them."""
    found: dict[str, set[str]] = {}
    for name, inside in re.findall(r"^(\w+)(?:\{(.*)\})? ", metrics, re.M):
        given = re.findall(r'(\w+)="', inside)
        stored = {f"exported_{label}" if label in OF_THE_SCRAPE else label for label in given}
        found.setdefault(name, set()).update(stored, OF_THE_SCRAPE)
    return found


def rules() -> dict[str, str]:
    """Return the expression of each rule of the page."""
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S):
        tree = yaml.safe_load(block)
        if "groups" in tree:
            return {rule["alert"]: rule["expr"] for group in tree["groups"] for rule in group["rules"]}
    raise AssertionError("a page for operators must have rules for Prometheus, found none")


def test_the_page_lists_every_metric_with_its_labels(metrics: str) -> None:
    rows = re.findall(r"^\| (`slacktide_.*?) \| (.*?) ?\|", PAGE, re.M)
    listed = {
        name: set(re.findall(r"\w+", labels)) for names, labels in rows for name in re.findall(r"\w+", names)
    }
    assert set(listed) == families(metrics)
    samples = dict(re.findall(r"^(\w+)\{(.*)\} ", metrics, re.M))
    for name, labels in listed.items():
        assert set(re.findall(r'(\w+)="', samples.get(name, ""))) == labels, name


def test_metrics_that_any_page_names_are_there(metrics: str) -> None:
    known = families(metrics) | {name + part for name in families(metrics) for part in PARTS}
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        named = set(re.findall(r"\bslacktide_[a-z_]+\b", page.read_text(encoding="utf-8")))
        assert named - {"slacktide_papers"} <= known, page


@pytest.mark.parametrize("alert", rules())
def test_rules_use_series_and_labels_that_are_there(metrics: str, alert: str) -> None:
    expression, stored = rules()[alert], labels_of(metrics)
    names = re.findall(r"\bslacktide_\w+", expression)
    assert names or "up{" in expression
    assert set(names) <= set(stored)
    joined = {
        label for group in re.findall(r"(?:by|on) \((.*?)\)", expression) for label in group.split(", ")
    }
    for name in names:
        taken = {label for label in OF_THE_SCRAPE if f"exported_{label}" in stored[name]}
        assert joined <= stored[name] - taken, f"{name} has {sorted(stored[name] - taken)}"
