"""The client of a server: the same verbs as on a local journal, over HTTP.

Begin with `remote`.
"""
