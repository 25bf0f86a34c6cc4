"""Synthetic markets, seeded and calibrated to real ones.

Begin with `profiles`, the named markets; `synthetic` draws one.
"""
