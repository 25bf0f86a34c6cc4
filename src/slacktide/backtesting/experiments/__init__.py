"""The papers' experiments as plain functions: settings in, rows of numbers out."""
