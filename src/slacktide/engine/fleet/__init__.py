"""Jobs of a fleet at work: its allocator is asked when something happened, and its answer is carried out.

Begin with `fleets`.
"""
