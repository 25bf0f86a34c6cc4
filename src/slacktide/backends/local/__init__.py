"""Training processes on this machine: the layer that starts, watches, stops and adopts them."""

from slacktide.backends.local.processes import Local, LocalProcesses
from slacktide.backends.workers.job_folder import LogFile
from slacktide.backends.workers.launch import Launch, Phase, ProcessStatus

__all__ = ["Launch", "Local", "LocalProcesses", "LogFile", "Phase", "ProcessStatus"]
