"""Machines by SkyPilot, on any cloud that it has access to.

Begin with `skypilot`, the provider; `child` is the process that speaks with SkyPilot's server.
"""

from slacktide.providers.skypilot.skypilot import Skypilot

__all__ = ["Skypilot"]
