"""Market files: a module for each format that can be read.

Begin with `market_file`, the file that names several traces; `market.source` chooses the reader.
"""
