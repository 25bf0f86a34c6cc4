"""Bills as text and under documented keys: of a job, of its parts, of a site and of rented machines.

Begin with `job`.
"""
