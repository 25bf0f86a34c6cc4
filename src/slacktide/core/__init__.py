"""Types, units, errors and the few tools that every package uses: plug-in registers, atomic file writes,
YAML trees.

Begin with `types` (jobs, quotes, allocations), then `errors` and `units`.
"""
