"""The back end of a Ray cluster: Ray only carries messages to the agents on its nodes.

Begin with `backend`, the controller's side; `bridge` is the process that is a client of Ray.
"""

from slacktide.backends.ray.backend import Ray

__all__ = ["Ray"]
