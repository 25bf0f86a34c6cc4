"""Carries messages to the agent of one node and its answers back, one at a time, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from slacktide.backends.machines.link.base import Host
from slacktide.backends.ray import actor
from slacktide.backends.ray.frames import Reply
from slacktide.backends.ray.package import Package

SPACE = "slacktide"
"""The namespace of our actors."""
FORM = 1
"""Changes with what the actor understands: actors of another form are left alone and end when idle."""
PAUSE_S = 0.3
"""After an error; the actor may be on its way back."""
STUCK_S = 45.0
"""An actor that says nothing for this long is killed, and Ray starts it again."""
BYTES_PER_S = 1e6
"""A large message may take longer than that: as long as a slow network needs."""
LOOK_S = 0.5


class AgentCarrier:
    """The way to one node."""

    def __init__(
        self, host: Host, owner: str, lease_s: float, idle_s: float, package: Package,
        reply: Callable[[Reply], None],
    ) -> None:  # fmt: skip
        self.host, self._owner, self._lease_s, self._idle_s = host, owner, lease_s, idle_s
        self._package, self._reply = package, reply
        self._next: bytes | None = None
        self._ended = False
        self.error = ""
        """Why there was no answer to the last message; empty when there was one."""
        self._changed = threading.Condition()
        self._actor: Any = None
        threading.Thread(target=self._carry, daemon=True, name=f"to-{host.id[:12]}").start()

    def send(self, frame: bytes) -> None:
        """Take over a message; one that has not been sent yet is dropped."""
        with self._changed:
            self._next = frame
            self._changed.notify()

    def end(self) -> None:
        """Carry nothing any more: the node is gone."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _carry(self) -> None:
        while (frame := self._taken()) is not None:
            try:
                answer = self._exchange(frame)
            except Exception as error:  # whatever Ray raises is no answer
                self.error = _last_line(error)
                self._actor = None
                time.sleep(PAUSE_S)
            else:
                if answer is not None:
                    self.error = ""
                    self._reply(Reply(self.host.id, answer))

    def _taken(self) -> bytes | None:
        """Wait for a message; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._next is not None)
            frame, self._next = self._next, None
            return None if self._ended else frame

    def _exchange(self, frame: bytes) -> bytes | None:
        """Return what the agent answers to a message; None when the node is gone meanwhile."""
        if self._actor is None:
            self._actor = self._found()
        for _ in range(2):
            reference = self._actor.tell.remote(self._package.digest, self._lease_s, frame)
            answer: bytes | None = self._got(reference, len(frame))
            if answer is not None or self._ended:
                return answer
            archive = self._package.archive
            self._got(self._actor.learn.remote(self._package.digest, archive), len(archive))
        return None

    def _got(self, ref: Any, size: int) -> Any:
        """Wait for a result; an actor that does not answer for long is killed, to be started again."""
        import ray

        give_up = time.monotonic() + STUCK_S + size / BYTES_PER_S
        while not self._ended:
            if ray.wait([ref], timeout=LOOK_S)[0]:
                return ray.get(ref)
            if time.monotonic() > give_up:
                ray.kill(self._actor, no_restart=False)
                raise TimeoutError
        return None

    def _found(self) -> Any:
        """Return the actor of this node, which is made where there is none."""
        import ray
        from ray import cloudpickle
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        cloudpickle.register_pickle_by_value(actor)
        made = ray.remote(actor.NodeAgent).options(
            name=f"{self._owner}/{self.host.id}/{FORM}", namespace=SPACE, lifetime="detached",
            get_if_exists=True, num_cpus=0, max_restarts=-1, max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(self.host.id, soft=False),
        )  # fmt: skip
        return made.remote(self._owner, self.host.id, self.host.address, self._idle_s)


def _last_line(error: Exception) -> str:
    """Return the line of an error that says most: for one on a node, Ray gives the whole traceback first."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
