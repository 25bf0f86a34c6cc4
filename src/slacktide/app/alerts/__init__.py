"""Alerts: which events of a journal people want to know of, and the hooks that are sent them.

Begin with `watch`; `sending` has what carries an alert out.
"""
