"""Jobs of a fleet at work: its allocator decides when something happened, and its decision is carried out.

Begin with `fleets`.
"""
