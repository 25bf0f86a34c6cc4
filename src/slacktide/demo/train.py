"""Train a small network on as many workers as there are: an elastic job in one file.

It only needs NumPy and `slacktide.worker`, so it can be copied to begin a job of your own. Start it once per
GPU, as `python -m slacktide.demo.train` or by its path. Each process learns its place from RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT, and from SLACKTIDE_CHECKPOINT_DIR, SLACKTIDE_PROGRESS, SLACKTIDE_GRACE_SECONDS
and SLACKTIDE_ATTEMPT; without them it trains alone.

- **The width does not matter.** A step uses the same samples at any width. Each worker takes a part of them
  and rank 0 adds up the gradients, so that only the order of a sum of floats differs.
- **It may be stopped.** On SIGTERM all workers end after the same step, and rank 0 saves it.
- **It may be resized.** Workers that stay leave the step loop together, connect to those of the new set and
  continue from the newest state that any of them has in memory. They are not restarted.
- **It may be killed.** Training continues from the last checkpoint at any width. If a peer vanishes, the
  others leave at once, and rank 0 first saves the last whole step.

Exit codes: 0 all steps are done, 2 bad input, 75 a peer was lost or did not come, 143 stopped on request.

With `--step-seconds` a step takes as long as on GPUs of that speed: the computation is real but takes far
less, and the workers sleep for the rest of the time. The result is the same.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slacktide import worker

Vector = NDArray[np.float64]

ARMS, ROWS, BATCH = 3, 1536, 96  # BATCH divides ROWS, so every epoch has the same number of steps
HIDDEN, LEARNING_RATE = 64, 0.02
SHAPES = ((2, HIDDEN), (HIDDEN,), (HIDDEN, ARMS), (ARMS,))
SIZES = [math.prod(shape) for shape in SHAPES]
EXIT_REFUSED, EXIT_LOST, EXIT_STOPPED = 2, 75, 143
REPORT_SECONDS, POLL_SECONDS = 0.25, 0.02
GREETING = 7131.0  # the first number that a worker of this script sends


class BadTrainingInput(Exception):
    """The input is not valid for this training."""


class PeerLost(ConnectionError):
    """A peer is gone, silent, or never came."""


# --- this worker's place, its options, and whether to stop


class RankPlace(NamedTuple):
    """Which worker of which attempt this process is, and how to reach rank 0."""

    rank: int
    width: int
    address: str
    port: int
    attempt: int

    @classmethod
    def here(cls) -> RankPlace:
        """Read the place from the environment; raises BadTrainingInput when it makes no sense."""
        names = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "29500", "SLACKTIDE_ATTEMPT": "0"}
        texts = {name: os.environ.get(name, default) for name, default in names.items()}
        if not all(text.isdecimal() for text in texts.values()):
            raise BadTrainingInput(
                f"{', '.join(texts)} must be whole numbers, got {', '.join(texts.values())}"
            )
        rank, width, port, attempt = map(int, texts.values())
        if not rank < width:
            raise BadTrainingInput(f"RANK must be below WORLD_SIZE, got {rank} and {width}")
        return cls(rank, width, os.environ.get("MASTER_ADDR", "127.0.0.1"), port, attempt)


class Options(NamedTuple):
    """The options of the command line."""

    steps: int
    step_seconds: float
    parallel_share: float
    checkpoint_every: int
    seed: int
    peer_seconds: float

    @classmethod
    def read(cls) -> Options:
        """Read the command line; a mistake ends the process with a message and code 2."""
        parser = argparse.ArgumentParser(prog="train", description="Train a small network, elastically.")
        for name, kind, default, meaning in (
            ("steps", limited(int, 1), 600, "total steps"),
            ("step-seconds", limited(float, 0), 0.0, "how long a step takes on one GPU; 0: no pace"),
            ("parallel-share", limited(float, 0, 1), 1.0, "the share of a step that more GPUs make faster"),
            ("checkpoint-every", limited(int, 1), 50, "steps between checkpoints"),
            ("seed", limited(int, 0), 7, "of the data and the first weights"),
            ("peer-seconds", limited(float, 0), 15.0, "how long to wait for a silent peer"),
        ):
            parser.add_argument(f"--{name}", type=kind, default=default, help=f"{meaning} ({default})")
        return cls(**vars(parser.parse_args()))

    def pace_s(self, width: int) -> float:
        """Return how long a step takes on this many GPUs, by Amdahl's law."""
        return self.step_seconds * (1 - self.parallel_share + self.parallel_share / width)


def limited(kind: Callable[[str], float], least: float, most: float = math.inf) -> Callable[[str], float]:
    """Return a reader of numbers from `least` to `most`."""

    def read(text: str) -> float:
        number = kind(text)
        if not (least <= number <= most and math.isfinite(number)):
            raise argparse.ArgumentTypeError(f"must be in {least}..{most}, got {text}")
        return number

    return read


class Stop:
    """Knows whether a stop was requested, and until when there is time to tell the others."""

    def __init__(self, grace_s: float) -> None:
        self.by_s = math.inf
        self._patience_s = grace_s / 2  # the other half is for saving
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_stop)
        worker.stopping.heed()  # so that a stop also ends the wait in worker.reform()

    def _note_stop(self, *_: Any) -> None:
        self.by_s = min(self.by_s, time.monotonic() + self._patience_s)

    @property
    def requested(self) -> bool:
        return self.by_s < math.inf

    @property
    def changing(self) -> bool:
        """Whether this worker has to leave the others: to end, or to meet those of another set."""
        return self.requested or bool(worker.resizing)

    def rest(self, until_s: float) -> None:
        """Sleep until this time, or until this worker has to leave."""
        while not self.changing and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, POLL_SECONDS))


# --- the workers


class Team:
    """The workers of one attempt, connected over TCP to rank 0 in the middle; they only exchange vectors."""

    def __init__(self, place: RankPlace, stop: Stop, patience_s: float) -> None:
        self._place, self._stop, self._patience_s = place, stop, patience_s
        self._until_s = time.monotonic() + patience_s
        self._peers = [self._enter()] if place.rank else self._gather()

    def close(self) -> None:
        """Close the connections."""
        for peer in self._peers:
            peer.close()

    def _gather(self) -> list[socket.socket]:
        """Accept every other rank; any other connection is closed."""
        found: dict[int, socket.socket] = {}
        if self._place.width == 1:
            return []
        with self._listen() as server:
            while len(found) < self._place.width - 1:
                self._check_patience("every rank")
                if select.select([server], [], [], POLL_SECONDS)[0]:
                    peer = server.accept()[0]
                    rank = self._rank_of(peer)
                    if rank is None or rank in found:
                        peer.close()
                    else:
                        found[rank] = peer
        return [self._tuned(found[rank]) for rank in sorted(found)]

    def _listen(self) -> socket.socket:
        try:
            return socket.create_server((self._place.address, self._place.port), backlog=self._place.width)
        except OSError as error:
            raise PeerLost(f"MASTER_ADDR:MASTER_PORT must be free to listen on, got: {error}") from error

    def _rank_of(self, peer: socket.socket) -> int | None:
        """Return the rank that has connected; None if it is not a worker of this attempt."""
        try:
            greeting = self._receive(peer, self._greeting(0), patience_s=1.0)
        except OSError:
            return None
        expected = {self._greeting(rank).tobytes(): rank for rank in range(1, self._place.width)}
        return expected.get(greeting.tobytes())

    def _greeting(self, rank: int) -> Vector:
        return np.array([GREETING, self._place.attempt, self._place.width, rank], np.float64)

    def _enter(self) -> socket.socket:
        """Connect to rank 0, which may not be up yet."""
        while True:
            self._check_patience("rank 0")
            try:
                peer = socket.create_connection((self._place.address, self._place.port), timeout=1.0)
            except OSError:
                time.sleep(POLL_SECONDS)
                continue
            if peer.getsockname() != peer.getpeername():
                peer.sendall(self._greeting(self._place.rank).tobytes())
                return self._tuned(peer)
            peer.close()  # on loopback a socket can connect to itself while no other process listens

    def _check_patience(self, whom: str) -> None:
        if self._stop.requested or time.monotonic() > self._until_s:
            place = f"{self._place.address}:{self._place.port}"
            raise PeerLost(f"{whom} must come to {place} within {self._patience_s:g} s, but none did")

    def _tuned(self, peer: socket.socket) -> socket.socket:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a step waits for one small message
        peer.settimeout(self._patience_s)
        return peer

    def share(self, vector: Vector) -> Vector:
        """Return rank 0's vector at every rank; of the others' arguments only the size counts."""
        if self._place.rank:
            return self._receive(self._peers[0], vector, self._patience_s)
        self._send(vector)
        return vector

    def total(self, vector: Vector) -> Vector:
        """Return the sum over all ranks, added in the order of ranks, the same at each."""
        if self._place.rank:
            self._send(vector)
            return self._receive(self._peers[0], vector, self._patience_s)
        result = vector.copy()
        for peer in self._peers:
            result += self._receive(peer, vector, self._patience_s)
        self._send(result)
        return result

    def newest(self, step: int) -> int | None:
        """Return the rank that has done the most steps; None if no rank has a state (`step` is -1)."""
        own_steps = np.zeros(self._place.width)
        self.share(own_steps)  # rank 0 sends first, so a refused worker finds its connection closed
        own_steps[self._place.rank] = step + 1
        steps = self.total(own_steps)
        return int(steps.argmax()) if steps.max() > 0 else None

    def spread(self, source: int, vector: Vector) -> Vector:
        """Return the vector of one rank at every rank."""
        return self.total(vector if self._place.rank == source else np.zeros_like(vector))

    def _send(self, vector: Vector) -> None:
        for peer in self._peers:
            peer.sendall(vector.tobytes())

    def _receive(self, peer: socket.socket, like: Vector, patience_s: float) -> Vector:
        """Wait for a vector, no longer than the patience allows, nor than a stop leaves time for."""
        result = np.empty_like(like)
        rest = result.data.cast("B")
        until_s = time.monotonic() + patience_s
        while rest:
            if time.monotonic() > min(until_s, self._stop.by_s):
                raise PeerLost("a peer must answer in time, got silence")
            if select.select([peer], [], [], POLL_SECONDS)[0]:
                count = peer.recv_into(rest)
                if count == 0:
                    raise PeerLost("all peers must stay connected to the end, got a closed connection")
                rest = rest[count:]
        return result


# --- the model


class TrainingState(NamedTuple):
    """All that training depends on: the number of steps done, the weights, and Adam's moments."""

    step: int
    weights: Vector
    mean: Vector
    square: Vector

    @classmethod
    def first(cls, seed: int) -> TrainingState:
        """Draw the first weights."""
        random = np.random.default_rng([seed, 1])
        layers = [random.normal(0, 1 / math.sqrt(s[0]), s) if len(s) == 2 else np.zeros(s) for s in SHAPES]
        weights = np.concatenate([layer.ravel() for layer in layers])
        return cls(0, weights, np.zeros_like(weights), np.zeros_like(weights))

    @classmethod
    def from_vector(cls, vector: Vector) -> TrainingState:
        return cls(int(vector[0]), *np.split(vector[1:], 3))

    def vector(self) -> Vector:
        return np.concatenate([[self.step], self.weights, self.mean, self.square])


@cache
def spirals(seed: int) -> tuple[Vector, NDArray[np.int64]]:
    """Return points on three spiral arms that wind into each other, and the arm of each point."""
    random = np.random.default_rng([seed, 2])
    arm = np.arange(ROWS) % ARMS
    radius = random.uniform(0.05, 1, ROWS)
    angle = 2 * np.pi * (arm / ARMS + radius) + random.normal(0, 0.15, ROWS)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), arm


@lru_cache(maxsize=2)
def order(seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the order of the samples in an epoch: it only depends on seed and epoch."""
    return np.random.default_rng([seed, 3, epoch]).permutation(ROWS)


def samples(seed: int, step: int, place: RankPlace) -> tuple[Vector, NDArray[np.int64]]:
    """Return this rank's part of a step's samples; all parts together are the same at any width."""
    points, arm = spirals(seed)
    epoch, first = divmod(step * BATCH, ROWS)
    chosen = np.array_split(order(seed, epoch)[first : first + BATCH], place.width)[place.rank]
    return points[chosen], arm[chosen]


def layers(weights: Vector) -> list[Vector]:
    """Split the flat weights into the matrices and biases of the layers."""
    parts = np.split(weights, np.cumsum(SIZES)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]


def outputs(weights: Vector, points: Vector) -> tuple[Vector, Vector]:
    """Return the hidden layer's outputs for some points, and the log-probabilities of the arms."""
    w1, b1, w2, b2 = layers(weights)
    hidden = np.tanh(points @ w1 + b1)
    scores = hidden @ w2 + b2
    scores -= scores.max(axis=1, keepdims=True)
    return hidden, scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def gradient(weights: Vector, points: Vector, arm: NDArray[np.int64]) -> Vector:
    """Return the gradient of the loss, summed (not averaged) over the points, which may be none."""
    hidden, logs = outputs(weights, points)
    d2 = np.exp(logs)
    d2[np.arange(len(arm)), arm] -= 1
    d1 = d2 @ layers(weights)[2].T * (1 - hidden**2)
    parts = [points.T @ d1, d1.sum(axis=0), hidden.T @ d2, d2.sum(axis=0)]
    return np.concatenate([part.ravel() for part in parts])


def updated(state: TrainingState, slope: Vector) -> TrainingState:
    """Return the state after one step of Adam."""
    step = state.step + 1
    mean = 0.9 * state.mean + 0.1 * slope
    square = 0.99 * state.square + 0.01 * slope**2
    move = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return TrainingState(step, state.weights - LEARNING_RATE * move, mean, square)


def measured(weights: Vector, seed: int) -> dict[str, float]:
    """Return loss and accuracy over the whole data set."""
    points, arm = spirals(seed)
    logs = outputs(weights, points)[-1]
    right = float((logs.argmax(axis=1) == arm).mean())
    return {"loss": float(-logs[np.arange(ROWS), arm].mean()), "accuracy": right}


# --- checkpoints and progress


class Shelf:
    """The checkpoints in a folder: whole and durable, the last two, in case one is broken."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._label = folder, f"spirals, seed {seed}"

    def save(self, state: TrainingState) -> None:
        """Write a checkpoint; once this returns, it survives a loss of power."""
        content = io.BytesIO()
        np.savez(content, label=np.array(self._label), state=state.vector())
        data = hashlib.sha256(content.getbuffer()).digest() + content.getbuffer()
        worker.save(self._folder / f"step-{state.step:09}.ckpt", data)
        for old in sorted(self._folder.glob("step-*.ckpt"))[:-2]:
            old.unlink(missing_ok=True)

    def newest(self) -> TrainingState | None:
        """Return the newest whole checkpoint; raises BadTrainingInput if it is another job's."""
        for path in sorted(self._folder.glob("step-*.ckpt"), reverse=True):
            data = path.read_bytes()
            if hashlib.sha256(data[32:]).digest() == data[:32]:
                with np.load(io.BytesIO(data[32:])) as found:
                    if found["label"] != self._label:
                        raise BadTrainingInput(f"{path} must be of {self._label}, got {found['label']}")
                    return TrainingState.from_vector(found["state"])
            print(f"{path.name} is broken and was removed; trying an older one", file=sys.stderr)
            path.unlink()
        return None


class TrainingRecord:
    """Saves and reports the training at rank 0."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._shelf = Shelf(worker.checkpoint_dir or Path("checkpoints"), options.seed)
        self._saved_step = 0
        self._reported_s = -math.inf

    def begin(self) -> TrainingState:
        """Return the state to continue from: the newest checkpoint, or the first weights."""
        found = self._shelf.newest()
        state = TrainingState.first(self._options.seed) if found is None else found
        self._saved_step = state.step
        return state

    def go_on(self, state: TrainingState) -> None:
        """Report where a set of workers continues, and save that state if it comes from memory."""
        if state.step > self._saved_step:
            self.save(state)
        else:
            self.report(state)

    def note(self, state: TrainingState) -> None:
        """Save a step if it is time to, and report progress now and then."""
        if state.step % self._options.checkpoint_every == 0:
            self.save(state)
        elif time.monotonic() > self._reported_s + REPORT_SECONDS:
            self.report(state)

    def save(self, state: TrainingState) -> None:
        """Save a step unless it is saved, and only then report it."""
        if state.step > self._saved_step:
            self._shelf.save(state)
            self._saved_step = state.step
            self.report(state)

    def report(self, state: TrainingState) -> None:
        """Report the share done and the share saved; without Slacktide, print them."""
        done, metrics = state.step / self._options.steps, measured(state.weights, self._options.seed)
        worker.progress(done, checkpointed=self._saved_step / self._options.steps, **metrics)
        if "SLACKTIDE_PROGRESS" not in os.environ:
            print(f"{done:.1%} done, {metrics}", flush=True)
        self._reported_s = time.monotonic()


# --- the training loop


def train(options: Options, stop: Stop) -> bool:
    """Train in one set of workers after another; return whether all steps are done.

    Raises ConnectionError or TimeoutError if a peer is lost and this worker gets no new place.
    """
    state: TrainingState | None = None
    spirals(options.seed)
    if not worker.ready():
        return False
    while True:
        lost: OSError | None = None
        run = TrainingRun(options, RankPlace.here(), stop, state)
        try:
            run.train()
        except (ConnectionError, TimeoutError) as error:
            lost = error
        state = run.state
        if state is not None and state.step >= options.steps:
            return True
        if stop.requested or not worker.reform():
            if lost is not None:
                raise lost
            return False


class TrainingRun:
    """The training in one set of workers."""

    def __init__(self, options: Options, place: RankPlace, stop: Stop, state: TrainingState | None) -> None:
        self.state = state  # after the last whole step; None until there is a state to continue from
        self._options, self._place, self._stop = options, place, stop
        self._pace_s = options.pace_s(place.width)
        self._record = None if place.rank else TrainingRecord(options)

    def train(self) -> None:
        """Connect to the others and train to the end, or until this set has to end; rank 0 saves."""
        team = Team(self._place, self._stop, self._options.peer_seconds + self._pace_s)
        try:
            state = self._agree(team)
            if self._record:
                self._record.go_on(state)
            self._advance(team, state)
        finally:
            team.close()
            if self._record and self.state:
                self._record.save(self.state)

    def _agree(self, team: Team) -> TrainingState:
        """Return the newest state in any worker's memory, else that of rank 0's checkpoint."""
        source = team.newest(-1 if self.state is None else self.state.step)
        fresh = self._record is not None and (source is None or self.state is None)
        found = self._record.begin() if fresh and self._record else None
        if source is None:
            source, self.state = 0, found
        own = self.state or TrainingState.first(self._options.seed)
        self.state = TrainingState.from_vector(team.spread(source, own.vector()))
        return self.state

    def _advance(self, team: Team, state: TrainingState) -> None:
        until_s, changing = time.monotonic(), False
        while state.step < self._options.steps and not changing:
            slope = gradient(state.weights, *samples(self._options.seed, state.step, self._place))
            # Counted from the last step's end, so that the time of the exchange is not added to the pace.
            until_s = max(until_s + self._pace_s, time.monotonic())
            self._stop.rest(until_s)
            # An extra element says whether any worker has to leave, so that all leave after the same step.
            total = team.total(np.append(slope, float(self._stop.changing)))
            changing = bool(total[-1])
            state = self.state = updated(state, total[:-1] / BATCH)
            if self._record:
                self._record.note(state)


def main() -> int:
    """Train, and return the exit code."""
    options = Options.read()
    stop = Stop(float(os.environ.get("SLACKTIDE_GRACE_SECONDS", "30")))
    try:
        return 0 if train(options, stop) else EXIT_STOPPED
    except BadTrainingInput as error:
        print(f"train: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except (ConnectionError, TimeoutError) as error:
        print(f"train: {error}", file=sys.stderr)
        return EXIT_STOPPED if stop.requested else EXIT_LOST


if __name__ == "__main__":
    sys.exit(main())
