"""Checkpoints away from the machine: copied to an object store while a job runs, and back before it resumes.

`url` says where, `folder` what is copied, `vault` how it is kept so that nothing is ever torn, and `mover`
does it in a child process, because copying gigabytes must keep nobody waiting. pyarrow is imported at first
use.
"""
