"""How optimal widths are found: choices of each class, their convex hulls, and the price at which they meet
the budget.

Begin with `frontier`, then `width_options`.
"""
