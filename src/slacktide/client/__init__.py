"""The verbs on a server: the same as on a journal of one's own, over HTTP.

Begin with `remote`.
"""
