"""Jobs that come over the network: their files are checked, kept and removed.

Begin with `job_checks`, which reads the job files of other users; `uploads` keeps what they send.
"""
