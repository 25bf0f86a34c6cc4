"""Access to the server: which callers may do what, and how much.

Begin with `gate`.
"""
