"""What a job will probably cost and when it will be done, from simulated futures of its market.

Begin with `one_pool` for a job that stays, and `many_pools` for one that may move; both make a `JobPlan`.
"""
