"""How a job progresses over time, what its GPUs cost, and the stretches in which both are recorded.

Begin with `progress.pass_time`; `tariff` prices what it returns, and `ledger` adds stretches up to a bill.
"""
