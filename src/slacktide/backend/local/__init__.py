"""Training processes on this machine: the layer that starts, watches, stops and adopts them."""

from slacktide.backend.local.backend import Local
from slacktide.backend.local.launch import Kind, Launch
from slacktide.backend.local.observation import LogFile, Observation, Phase, Stray
from slacktide.backend.local.processes import Processes

__all__ = ["Kind", "Launch", "Local", "LogFile", "Observation", "Phase", "Processes", "Stray"]
