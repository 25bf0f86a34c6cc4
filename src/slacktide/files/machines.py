"""Reads the machines file: the provider, the kinds of machines, and how many may be rented at which cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from slacktide.core.errors import InputError, shown
from slacktide.core.register import Spec as PluginSpec
from slacktide.core.units import parse_duration_hours
from slacktide.core.yaml_fields import Fields, root, scalar, section, text_of
from slacktide.core.yaml_tree import Mistakes, Scalar, Tree, parse_tree, read_text
from slacktide.files import keys
from slacktide.journal.events import Capacity
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Provider, Renter, Renting, Rules, providers

MACHINE_KEYS = ("provider", "pools", "max_machines", "max_usd_per_hour", "join_within")
"""All keys of a machines file."""
POOL_KEYS = ("gpus", "usd_per_hour")
CAPACITIES: tuple[Capacity, ...] = get_args(Capacity)
JOIN_WITHIN_HOURS = 0.25


@dataclass(frozen=True, slots=True)
class MachineOffer:
    """How many GPUs a machine of a pool has, and what it costs."""

    gpus: int
    usd_per_hour: Mapping[Capacity, float]  # for spot and on demand; one that is missing is not rented


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesFile:
    """The contents of a machines file."""

    provider: PluginSpec  # as written: a name, or a name with its settings
    pools: Mapping[str, MachineOffer]
    max_machines: float = math.inf
    max_usd_per_hour: float = math.inf
    join_within_hours: float = JOIN_WITHIN_HOURS
    path: str = "<text>"

    def rules(self, speed: float = 1.0) -> Rules:
        """Return the rules of the reconciler, whose clock runs `speed` times as fast as real time."""
        # Periods are in real time, so a faster clock counts that many times as many hours for each.
        plain = Rules()
        return Rules(
            usd_per_hour={spec[:2]: self.usd_per_hour(spec) for spec in self.specs()},
            max_machines=self.max_machines,
            max_usd_per_hour=self.max_usd_per_hour,
            join_within_hours=self.join_within_hours * speed,
            listed_within_hours=plain.listed_within_hours * speed,
            leaked_after_hours=plain.leaked_after_hours * speed,
            first_wait_hours=plain.first_wait_hours * speed,
            longest_wait_hours=plain.longest_wait_hours * speed,
        )

    def specs(self) -> list[MachineKind]:
        """Return every kind of machine that may be rented."""
        return [
            MachineKind(kind, name, pool.gpus)
            for name, pool in self.pools.items()
            for kind in pool.usd_per_hour
        ]

    def usd_per_hour(self, spec: MachineKind) -> float:
        """Return what such a machine costs in an hour; 0 if the file does not say."""
        offer = self.pools.get(spec.pool)
        return 0.0 if offer is None else offer.usd_per_hour.get(spec.kind, 0.0)

    def provider_for(self, renter: Renter) -> Provider:
        """Make the provider for an owner; raises InputError when its settings are wrong."""
        owner = replace(renter, settings_folder=self.folder)
        if isinstance(self.provider, str):
            return providers.make({self.provider: {"renter": owner}})
        ((name, settings),) = self.provider.items()
        return providers.make({name: {**(settings or {}), "renter": owner}})

    def renting(self, renter: Renter, speed: float) -> Renting:
        """Return what a back end needs to rent machines for an owner; for `speed` see `rules`."""
        return Renting(self.provider_for(renter), self.rules(speed), tuple(self.specs()))

    @property
    def folder(self) -> Path:
        return Path(self.path).absolute().parent


def read_machines_file(path: str | Path) -> MachinesFile:
    """Read a machines file; raises FileError with the place of every mistake."""
    return parse_machines(read_text(path), path=path)


def parse_machines(text: str, *, path: str | Path = "<text>") -> MachinesFile:
    """Read the text of a machines file; `path` names it in messages, and its folder anchors other paths."""
    mistakes = Mistakes(path)
    tree, least = parse_tree(text, mistakes), "provider and pools"
    fields = root(tree, mistakes, MACHINE_KEYS, kind="machines", least=least)
    fields.require("provider", "{ec2: {region: us-east-1, image: ami-0123}}")
    fields.require("pools", "{us-east-1a/p4d.24xlarge: {gpus: 8, usd_per_hour: {spot: 12.0}}}")
    provider = fields.read("provider", keys.provider, "")
    pools = fields.read("pools", _pools, {})
    machines = fields.read("max_machines", scalar(keys.how_many), math.inf)
    usd = fields.read("max_usd_per_hour", scalar(keys.positive(keys.usd)), math.inf)
    join = fields.read("join_within", scalar(keys.positive(parse_duration_hours)), JOIN_WITHIN_HOURS)
    unpriced = [name for name, offer in pools.items() if not all(offer.usd_per_hour.values())]
    if math.isfinite(usd) and unpriced:
        must = "must come with a price > 0 of every pool"
        fields.note("max_usd_per_hour", f"{must}, got none for {shown(unpriced[0])}; write its usd_per_hour")
    mistakes.check()
    return MachinesFile(
        provider=provider, pools=pools, max_machines=machines, max_usd_per_hour=usd, join_within_hours=join,
        path=str(path),
    )  # fmt: skip


def _pools(tree: Tree, mistakes: Mistakes) -> dict[str, MachineOffer]:
    entries = section(tree).entries
    if not entries:
        raise InputError("must name at least one pool, got none")
    return {name: _pool(entry.value, mistakes, name) for name, entry in entries.items()}


def _pool(tree: Tree, mistakes: Mistakes, name: str) -> MachineOffer:
    def prices(tree: Tree, mistakes: Mistakes) -> dict[Capacity, float]:
        """Read `{spot: 12.0, on-demand: 32.77}`, or one price for both."""
        if isinstance(tree, Scalar):
            return dict.fromkeys(CAPACITIES, keys.usd(text_of(tree)))
        fields = Fields(tree, mistakes, CAPACITIES, prefix=f"pools.{name}.usd_per_hour.")
        return {kind: fields.read(kind, scalar(keys.usd), 0.0) for kind in CAPACITIES if kind in fields}

    fields = Fields.of_item(tree, mistakes, POOL_KEYS, f"pools.{name}")
    if fields is None:
        return MachineOffer(1, {})
    fields.require("gpus", "8")
    gpus = fields.read("gpus", scalar(keys.how_many), 1)
    free: dict[Capacity, float] = dict.fromkeys(CAPACITIES, 0.0)
    return MachineOffer(gpus, fields.read("usd_per_hour", prices, free))
