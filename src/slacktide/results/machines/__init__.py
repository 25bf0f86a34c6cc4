"""What rented machines come to: lists, bills and what jobs made of them.

Begin with `machine_bill`.
"""
