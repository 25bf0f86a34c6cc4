"""Training processes on this machine: the layer that starts, watches, stops and adopts them."""

from slacktide.backends.local.backend import Local
from slacktide.backends.local.processes import LocalProcesses
from slacktide.backends.workers.launch import Kind, Launch
from slacktide.backends.workers.process_status import LogFile, Phase, ProcessStatus, Stray

__all__ = ["Kind", "Launch", "Local", "LocalProcesses", "LogFile", "Phase", "ProcessStatus", "Stray"]
