"""The back-test of a fleet: many jobs on one budget, on a market of spot and on-demand GPUs or at one price.

Begin with `comparison`. `market_run` drives jobs on a market slot by slot; `stream_run` drives a stream at
one price event by event, and `settled` computes it at once where jobs are independent.
"""
