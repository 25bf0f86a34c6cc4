"""Alerts: what in a journal somebody must be told, and hooks that tell it to other programs."""
