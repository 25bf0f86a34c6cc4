"""The user's and a project's own settings: where a journal, server, token, market and defaults come from.

Begin with `settings`.
"""
