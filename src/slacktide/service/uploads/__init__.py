"""Jobs that come over the network: their files, kept and removed.

Begin with `uploads`.
"""
