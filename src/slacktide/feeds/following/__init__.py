"""Following a feed into a table: when to ask, which rows are due, and how they are kept."""
