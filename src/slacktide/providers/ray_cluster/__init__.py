"""Machines of a Ray or KubeRay cluster that is there already.

Begin with `ray_cluster`, the provider; `child` is the process that speaks with Ray.
"""

from slacktide.providers.ray_cluster.ray_cluster import RayCluster

__all__ = ["RayCluster"]
