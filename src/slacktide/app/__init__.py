"""The verbs, such as plan and submit: typed request in, typed result out, for command line, Python, server.

Begin with `jobs.submission` and `planning.plan`.
"""
