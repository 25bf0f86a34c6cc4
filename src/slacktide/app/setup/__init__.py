"""What helps to get started: examples, files to start from, what this machine lacks, a local cluster.

Begin with `doctor`.
"""
