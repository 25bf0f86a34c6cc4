"""What the pools of a market have to do with each other, and which of them a job may use.

Begin with `places`, then `moves`: what it costs to carry a checkpoint from one pool to another.
"""
