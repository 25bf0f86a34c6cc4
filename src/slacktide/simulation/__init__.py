"""Back-tests: one job on a recorded market slot by slot, many starts at once, and policies compared.

Begin with `plain`, which defines a back-test; `batch` is the same compiled, `compare` sets policies side by
side.
"""
