"""Checkpoints away from the machine: copied to an object store while a job runs, and back before it resumes.

Begin with `vault`: how they are kept so that nothing is ever torn. `slacktide.files.store_url` says
where, `folder` what is copied, and `stored` does it in a child process, because copying gigabytes must not
keep a controller waiting. pyarrow is imported at first use.
"""
