"""What runs of streams and fleets come to, and allocators compared.

Begin with `fleet` (jobs on a market) or `stream` (jobs on an average budget).
"""
