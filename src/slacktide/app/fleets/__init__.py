"""Fleets and streams: simulated, put on a budget, and learned from tables of past jobs.

Begin with `simulate`.
"""
