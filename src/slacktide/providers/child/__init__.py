"""A child process that answers a provider's questions in lines of JSON, within a time limit.

Begin with `child`.
"""
