"""Back-tests: one job on a recorded market slot by slot, many starts at once, and policies compared.

Begin with `plain`, which defines a back-test; `batch` does the same, compiled; `compare` puts policies
side by side.
"""
