"""What time does to work, what it costs, and the stretches that both are written in.

Begin with `progress.pass_time`; `tariff` prices what it returns, and `ledger` adds stretches up to a bill.
"""
