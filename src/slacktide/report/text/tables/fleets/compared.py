"""A simulated fleet in the terminal, whether its jobs shared a market or ran at one price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slacktide.report.text.tables.fleets import fleet, streams
from slacktide.results.fleets.stream import StreamComparison

if TYPE_CHECKING:
    from slacktide.results.fleets.fleet_comparison import FleetComparison


def page(found: StreamComparison | FleetComparison, source: str) -> list[Any]:
    """Return things to print: what was run on what, a line for each allocator, and notes."""
    return streams.page(found, source) if isinstance(found, StreamComparison) else fleet.page(found, source)
