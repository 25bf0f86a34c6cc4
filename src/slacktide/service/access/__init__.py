"""Who may ask what of the server, and how much.

Begin with `gate`.
"""
