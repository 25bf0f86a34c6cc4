"""Allocators and policies that experiments compare with: fixed clusters, autoscaling, failover, simple rules.

Each is a plug-in by an entry point; begin with `fifo` for streams, `earliest_deadline` for fleets and
`eager_failover` for jobs that move between pools.
"""
