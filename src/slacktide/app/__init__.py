"""The verbs: a typed request in, a typed result out; for the command line, Python and the server alike.

Begin with `jobs.submission` and `planning.plan`.
"""
