"""What allocators on a market are shown: kinds of jobs as tables, and who holds which spot.

Begin with `job_tables`.
"""
