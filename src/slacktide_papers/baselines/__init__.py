"""Allocators for streams that the papers' experiments compare with: fixed clusters and Pollux's autoscaling.

Each is a plug-in by an entry point; begin with `fifo`.
"""
