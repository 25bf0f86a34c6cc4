"""The server: one process that answers HTTP requests and runs the engine. Its libraries come with the extra
`serve`.

Begin with `server`.
"""
