"""Plans, back-tests and lessons: what a job would cost, would have cost, and which policy to trust.

Begin with `plan`.
"""
