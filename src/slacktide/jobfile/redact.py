"""A job file's text changed in one place: without its secrets, fit to be kept; or with another class."""

from __future__ import annotations


def without_secrets(text: str) -> str:
    """Return a job file's text with the value of every secret taken out; without secrets it is unchanged.

    A secret without a value is one to be looked up where the job runs.
    """
    import yaml

    document = yaml.safe_load(text)
    if not isinstance(document, dict) or not document.get("secrets"):
        return text
    # Plain scalars may have become dates or numbers: the base loader keeps every text as it was written.
    document = yaml.load(text, Loader=yaml.BaseLoader)
    names = document["secrets"]
    if isinstance(names, dict):
        document["secrets"] = dict.fromkeys(names)
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def with_class(text: str, name: str) -> str:
    """Return a job file's text with this class, whatever class it names."""
    import yaml

    document = yaml.load(text, Loader=yaml.BaseLoader)
    return yaml.safe_dump({**document, "class": name}, sort_keys=False, allow_unicode=True)
