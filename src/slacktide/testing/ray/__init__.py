"""A Ray cluster of several nodes on this machine: started, looked at, hurt and ended.

Begin with `local_cluster`.
"""
