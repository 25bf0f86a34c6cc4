"""Results as text for a terminal: tables, bills and sentences."""
