"""Live fleets: when something happened, the allocator decides about all jobs, which is then carried out.

Begin with `fleets`.
"""
