"""Jobs that come over the network: how their files are checked, kept and removed.

Begin with `job_checks`, which reads the job files of other users; `uploads` keeps the files that they send.
"""
