"""The live engine: look, decide, write to the journal, act.

Begin with `engine`, then `step`. `job` has what belongs to one job, `fleet` what belongs to many, `bills`
what it all cost.
"""
