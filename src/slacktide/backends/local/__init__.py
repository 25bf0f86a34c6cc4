"""Training processes on this machine: the layer that starts, watches, stops and adopts them."""

from slacktide.backends.local.backend import Local
from slacktide.backends.local.processes import Processes
from slacktide.backends.workers.launch import Kind, Launch
from slacktide.backends.workers.observation import LogFile, Observation, Phase, Stray

__all__ = ["Kind", "Launch", "Local", "LogFile", "Observation", "Phase", "Processes", "Stray"]
