"""Questions that take seconds, answered in a process of their own.

Begin with `questions`, what that process does; `asking` starts it.
"""
