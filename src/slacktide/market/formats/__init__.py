"""Market files: a module for each format that can be read.

Begin with `samples`, what every reader makes of its file, and `table`, our own format; `market.source` opens
each with its reader.
"""
