"""For tests of plug-ins: a cloud in memory with faults, and a Ray cluster on this machine.

Begin with `fake_provider`.
"""
