"""Files that users write about jobs, fleets and machines, read and checked.

Begin with `job`, the job file, or `fleet.fleet`, the fleet file.
"""
