"""Processes and folders of this machine: who started what, what is left over, and what is ours.

Begin with `process_table`.
"""
