"""Training processes on this machine: the layer that starts, watches, stops and adopts them."""

from slacktide.backend.local.holding import Local
from slacktide.backend.local.launch import Kind, Launch
from slacktide.backend.local.processes import Processes
from slacktide.backend.local.sighting import LogFile, Phase, Sighting, Stray

__all__ = ["Kind", "Launch", "Local", "LogFile", "Phase", "Processes", "Sighting", "Stray"]
