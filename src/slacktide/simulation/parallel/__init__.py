"""Tasks of sweeps done on other cores and on a Ray cluster.

Begin with `base`.
"""
