"""The fleet file, and tables of jobs that go with it.

Begin with `fleet`.
"""
