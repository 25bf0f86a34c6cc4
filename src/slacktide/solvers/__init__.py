"""Exact and expected optima: what could have been done on a known market, and what is best on average.

Begin with `clairvoyant` (the optimum in hindsight) or `expected` (the programme behind stochastic-horizon).
"""
