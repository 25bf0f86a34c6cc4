"""What a job will probably cost and when it will be done, from simulated futures of its market.

Begin with `look_ahead`, which makes a `JobPlan` of a `PlannedJob`, whether it stays in one pool or may move.
"""
