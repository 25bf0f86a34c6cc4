"""Rows and cells of market files, with the place of every mistake.

Begin with `samples`, what every reader makes of its file.
"""
