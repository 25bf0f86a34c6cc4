"""Market files: a module for each format that can be read.

Begin with `samples`, what every reader makes of its file, and `table`, our own format; `market_file` names
several traces. `market.source` chooses the reader.
"""
