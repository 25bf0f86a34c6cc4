"""Learns online, by Hedge, which policy to trust, and keeps what was learned in a file.

Begin with `auto_policy`, which chooses, and `hedge`, which learns.
"""
