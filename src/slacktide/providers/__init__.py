"""Providers rent machines: their contract, the reconciler that rents and ends, and the providers themselves.

Begin with `base`; a new provider is one file here. `reconciler` makes what is rented match what is wanted.
"""
