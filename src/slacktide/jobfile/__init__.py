"""Job files and fleet files: what users write about one job or a stream of them, read and checked."""

from slacktide.jobfile.fleet import FleetFile, read_fleet_file
from slacktide.jobfile.fleet_keys import StreamSettings
from slacktide.jobfile.job import JOB_KEYS, JobFile, parse_job, read_job_file

__all__ = [
    "JOB_KEYS",
    "FleetFile",
    "JobFile",
    "StreamSettings",
    "parse_job",
    "read_fleet_file",
    "read_job_file",
]
