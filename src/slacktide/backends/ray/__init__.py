"""The back end of a Ray cluster: Ray carries messages to the agents on its nodes, and nothing else.

Begin with `backend`; `link` is the controller's side, `bridge` the process that is a client of Ray.
"""

from slacktide.backends.ray.backend import Ray

__all__ = ["Ray"]
