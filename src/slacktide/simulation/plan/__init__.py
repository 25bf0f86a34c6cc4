"""What a job will probably cost and when it will be done, from simulated futures.

Begin with `outlook`.
"""
