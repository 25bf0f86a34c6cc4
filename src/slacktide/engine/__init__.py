"""The live engine, which runs the jobs of a journal: it looks, decides, writes to the journal, then acts.

Begin with `engine`, then `step`. `job` is about one job, `fleet` about the jobs of a fleet, `bills` about
what they cost.
"""
