"""Solvers: the best plan on a market that is known, and the best decisions on average on one that is not.

Begin with `clairvoyant` (the optimum in hindsight) or `expected` (the programme behind stochastic-horizon).
"""
