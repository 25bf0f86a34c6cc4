"""The plan over a few slots ahead that AHAP makes from a forecast.

Begin with `programme`.
"""
