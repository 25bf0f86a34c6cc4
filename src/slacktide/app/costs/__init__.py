"""Bills of jobs, journals and fleets.

Begin with `costs`.
"""
