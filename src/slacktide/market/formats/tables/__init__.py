"""Our own table of quotes, as CSV and as Parquet, and a market packed to be sent.

Begin with `table`.
"""
