"""Back ends run the workers of jobs: the contract, and a folder for each place where they can run.

Begin with `base`; a new back end is one file or folder here.
"""
