"""Training processes on this machine: the layer that starts, watches, stops and adopts them."""

from slacktide.backends.local.processes import Local, LocalProcesses
from slacktide.backends.workers.job_folder import LogFile
from slacktide.backends.workers.launch import Kind, Launch
from slacktide.backends.workers.worker_backend import Phase, ProcessStatus, Stray

__all__ = ["Kind", "Launch", "Local", "LocalProcesses", "LogFile", "Phase", "ProcessStatus", "Stray"]
