"""Forecasts of prices and spot: the contract, a module for each forecaster, and how good they are.

Begin with `base`; a new forecaster is one file here. `score` measures them.
"""
