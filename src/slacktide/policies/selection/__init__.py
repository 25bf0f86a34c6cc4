"""Which policy to trust, learned online by Hedge, and where that is kept.

Begin with `auto_policy`, which chooses, and `hedge`, which learns.
"""
