"""Running the tasks of a sweep on other cores or on a Ray cluster.

Begin with `base`.
"""
