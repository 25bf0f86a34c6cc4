"""Where a pool is, read from its name: cloud, region, zone and continent, as large clouds name them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

CLOUDS = {
    "aws", "gcp", "azure", "oci", "ibm", "lambda", "nebius", "runpod", "vast", "coreweave", "fluidstack",
    "cudo", "paperspace", "do", "kubernetes", "k8s", "ssh",
}  # fmt: skip
"""Clouds that a part of a pool's name, or of `infra`, may name."""

# us-east-1, us-east-1c, us-gov-west-1a; us-west-2-lax-1a is a local zone of us-west-2.
_AWS = re.compile(r"(?P<region>[a-z]{2}(?:-[a-z]+){1,2}-[0-9]{1,2})(?P<zone>[a-z]|-[a-z]{3}-[0-9][a-z])?")
# us-central1, us-central1-a, northamerica-northeast1-b
_GCP = re.compile(r"(?P<region>[a-z]+-[a-z]+[0-9]{1,2})(?P<zone>-[a-z])?")
_SIDES = "north|south|east|west|central"
_LANDS = (
    "us|canada|mexico|brazil|chile|europe|uk|france|germany|norway|sweden|switzerland|poland|italy|spain|"
    "austria|belgium|denmark|asia|japan|korea|india|jioindia|indonesia|malaysia|australia|newzealand|"
    "southafrica|uae|qatar|israel|china"
)
# eastus2, westeurope-3, germanywestcentral: sides of the sky before or after a land.
_AZURE = re.compile(
    rf"(?=.*(?:{_SIDES}))(?P<region>(?:{_SIDES}){{0,2}}(?P<land>{_LANDS})(?:{_SIDES}){{0,2}}[0-9]?)(?P<zone>-[1-9])?"
)

_CONTINENTS = {
    "north-america": "us ca mx northamerica canada mexico",
    "south-america": "sa southamerica brazil chile",
    "europe": "eu europe uk france germany norway sweden switzerland poland italy spain austria belgium "
    "denmark",
    "middle-east": "il me uae qatar israel",
    "asia": "ap cn asia japan korea india jioindia indonesia malaysia china",
    "oceania": "australia newzealand ap-southeast-2 ap-southeast-4 ap-southeast-6",
    "africa": "af africa southafrica",
}
_CONTINENT_OF = {word: continent for continent, words in _CONTINENTS.items() for word in words.split()}


class Site(NamedTuple):
    """What a pool's name says about where it is; what it does not say is empty."""

    cloud: str
    region: str
    zone: str
    continent: str
    parts: frozenset[str]
    """All words of the name that select it, in lower case."""


@lru_cache(maxsize=4096)
def site_of(pool_name: str) -> Site:
    """Read a pool's name: a zone as GCP, AWS or Azure name it, perhaps with more before or after `/` or `_`.

    A name without any such zone is a region of its own, on an unknown continent.
    """
    parts = [part for part in re.split(r"[/_]", pool_name.strip().lower()) if part]
    named = next((part for part in parts if part in CLOUDS), "")
    for part in parts:
        for cloud, pattern in (("aws", _AWS), ("gcp", _GCP), ("azure", _AZURE)):
            if found := pattern.fullmatch(part):
                land = found["land"] if cloud == "azure" else part.partition("-")[0]
                continent = _CONTINENT_OF.get(found["region"]) or _CONTINENT_OF.get(land, "")
                if cloud == "azure" or continent:
                    zone = part if found["zone"] else ""
                    return _site(named or cloud, found["region"], zone, continent, pool_name, parts)
    return _site(named, pool_name, "", "", pool_name, parts)


def _site(cloud: str, region: str, zone: str, continent: str, name: str, parts: list[str]) -> Site:
    words = {cloud, region.lower(), zone, name.strip().lower(), *parts} - {""}
    return Site(cloud, region, zone, continent, frozenset(words))


def region_of(pool_name: str) -> str:
    """Return the region of a pool: `us-central1` for `gcp/us-central1-a`; an unknown name is its own."""
    return site_of(pool_name).region


def continent_of(pool_name: str) -> str:
    """Return the continent of a pool, such as `europe`; empty where the name does not say."""
    return site_of(pool_name).continent


def is_at(pool_name: str, infra: str) -> bool:
    """Whether a pool is where `infra` says: a cloud, region or zone, or several by `/`; `*` is any.

    An empty `infra` is anywhere.
    """
    site, wanted = site_of(pool_name), infra.strip().lower()
    if wanted in site.parts:
        return True
    return all(part in site.parts for part in wanted.split("/") if part not in ("", "*"))
