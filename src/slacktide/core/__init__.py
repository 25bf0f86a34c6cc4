"""Nouns, units, errors and the few tools that every package uses: plug-in registers, files written whole,
YAML trees.

Begin with `types` (jobs, quotes, allocations), then `errors` and `units`.
"""
