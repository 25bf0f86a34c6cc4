"""Ray as the carrier of messages to machines, and a cluster of this machine to try it on."""

from slacktide.backends.ray.backend import Ray

__all__ = ["Ray"]
