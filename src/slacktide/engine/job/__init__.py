"""One job at work: its market, its policy, its pace, and what becomes of each stretch.

Begin with `job_context`.
"""
