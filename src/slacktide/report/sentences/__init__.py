"""What happened and why, in sentences: every page, table, terminal and the dashboard take them from here."""
