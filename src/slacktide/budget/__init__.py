"""The mathematics of a stream of jobs on an average budget: classes, optimal widths and the frontier.

Begin with `widths.optimal_widths`; `classes` and `fleet` are its input.
"""
