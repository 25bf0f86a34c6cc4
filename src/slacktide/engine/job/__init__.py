"""One live job: its market, policy and pace, and what each stretch of it did and cost.

Begin with `job_context`.
"""
