"""Commands that help to get started and to keep settings."""
