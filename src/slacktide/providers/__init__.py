"""Providers rent machines: the contract, the reconciler that alone rents and ends, and a module or folder for
each.

Begin with `base`; a new provider is one file here. `reconciler` brings what is rented to what is wanted.
"""
