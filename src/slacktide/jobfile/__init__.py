"""The job file: what a user writes about one training job, read, checked and explained."""

from slacktide.jobfile.reading import JOB_KEYS, JobFile, parse_job, read_job_file

__all__ = ["JOB_KEYS", "JobFile", "parse_job", "read_job_file"]
