"""Fine-tune a small transformer with low-rank adapters (LoRA) on as many workers as there are.

Start it once per GPU, with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and the SLACKTIDE_* variables; without
them it trains alone. It uses NCCL where there are GPUs and gloo elsewhere. The width may change from one
start to the next:

- A step uses the same sequences at any width. They depend on seed and step alone, so the state of a generator
  need not be saved.
- A stop (SIGTERM) is agreed on in every step, so that all workers end after the same one; rank 0 saves it.
- So is a change of the set. Workers that stay keep their process and model: they meet the others of the new
  set and go on from the newest state that anyone holds in memory.
- When a peer vanishes the others leave, and rank 0 saves the last whole step before it does.

Exit codes: 0 all steps are done, 2 bad input, 75 a peer was lost or did not come, 143 stopped on request.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import ipaddress
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from slacktide import worker

VOCABULARY, CONTEXT, WIDTH, HEADS, BLOCKS = 32, 32, 64, 4, 2
RANK_OF_ADAPTERS, SCALE_OF_ADAPTERS = 8, 2.0
BATCH, HELD_OUT = 24, 64  # sequences
EXIT_REFUSED, EXIT_LOST, EXIT_STOPPED = 2, 75, 143


class Refused(Exception):
    """What was given cannot be trained with."""


class Lost(Exception):
    """A peer is gone, silent, or never came."""


# --- the model: a frozen base with adapters


class Adapted(nn.Module):
    """A frozen linear layer plus a trained product of two thin matrices, which starts at zero."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.lora_down = nn.Linear(inputs, RANK_OF_ADAPTERS, bias=False)
        self.lora_up = nn.Linear(RANK_OF_ADAPTERS, outputs, bias=False)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + SCALE_OF_ADAPTERS * self.lora_up(self.lora_down(x))


class Block(nn.Module):
    """Attention to what came before, then a small network at each position."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.attend, self.gather = Adapted(WIDTH, 3 * WIDTH), Adapted(WIDTH, WIDTH)
        self.widen, self.narrow = Adapted(WIDTH, 4 * WIDTH), Adapted(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        heads = self.attend(self.norms[0](x)).view(rows, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.gather(seen.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.narrow(functional.gelu(self.widen(self.norms[1](x))))


class Transformer(nn.Module):
    """A language model of which only the adapters learn. The base is random: load one of your own here."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)
        for name, parameter in self.named_parameters():
            parameter.requires_grad = "lora_" in name

    def forward(self, text: Tensor) -> Tensor:
        x = self.tokens(text) + self.places.weight[: text.shape[1]]
        return self.head(self.norm(self.blocks(x)))

    def adapters(self) -> dict[str, Tensor]:
        """Return what is trained, by name."""
        return {name: value for name, value in self.state_dict().items() if "lora_" in name}


def summed_loss(scores: Tensor, text: Tensor) -> Tensor:
    """Return the cross-entropy of each next symbol, summed over all of them."""
    return functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten(), reduction="sum")


# --- the data: a made-up language


class Language:
    """A language in which each symbol is followed by one of four; its texts depend on their numbers alone."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._next = torch.randint(VOCABULARY, (VOCABULARY, 4), generator=self._random(0))

    def _random(self, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed * 1_000_003 + number)

    def text(self, rows: int, number: int) -> Tensor:
        """Return sequences, one symbol longer than the context."""
        random = self._random(number)
        symbols = [torch.randint(VOCABULARY, (rows,), generator=random)]
        for _ in range(CONTEXT):
            symbols.append(self._next[symbols[-1], torch.randint(4, (rows,), generator=random)])
        return torch.stack(symbols, dim=1)

    def held_out(self) -> Tensor:
        return self.text(HELD_OUT, 1)

    def batch(self, step: int) -> Tensor:
        return self.text(BATCH, 2 + step)


# --- checkpoints and progress


class Shelf:
    """The checkpoints in a folder: whole, durable, and two of them, should one turn out broken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, step: int, content: dict[str, Any]) -> None:
        """Write a checkpoint; when this returns it outlives a power cut."""
        data = io.BytesIO()
        torch.save(content, data)
        whole = hashlib.sha256(data.getbuffer()).digest() + data.getbuffer()
        worker.save(self._folder / f"step-{step:09}.pt", whole)
        for old in sorted(self._folder.glob("step-*.pt"))[:-2]:
            old.unlink(missing_ok=True)

    def newest(self) -> dict[str, Any] | None:
        """Return the newest whole checkpoint, if there is one."""
        for path in sorted(self._folder.glob("step-*.pt"), reverse=True):
            data = path.read_bytes()
            if hashlib.sha256(data[32:]).digest() == data[:32]:
                return torch.load(io.BytesIO(data[32:]), map_location="cpu", weights_only=True)
            print(f"{path.name} is broken and was removed; trying an older one", file=sys.stderr)
            path.unlink()
        return None


# --- the workers


class Stop:
    """Knows whether this worker has to leave the others."""

    def __init__(self) -> None:
        self._interrupted = False

    def heed(self) -> None:
        """From now on remember a stop and go on; before, there is nothing to save and it ends the process."""
        worker.stopping.heed()
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, *_: Any) -> None:
        self._interrupted = True

    @property
    def asked(self) -> bool:
        """Whether to end."""
        return self._interrupted or bool(worker.stopping)

    @property
    def changing(self) -> bool:
        """Whether to end, or to meet the workers of another set."""
        return self.asked or bool(worker.resizing)

    def rest(self, until_s: float) -> None:
        """Sleep until a moment, or until something changes."""
        while not self.changing and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.02))


@contextmanager
def peers_needed() -> Iterator[None]:
    """Turn what the store, gloo and NCCL raise when a peer is gone into one error."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise
    except (OSError, RuntimeError) as error:
        raise Lost(f"all peers must come and stay to the end, got: {error}") from error


def join(rank: int, width: int, patience_s: float, grace_s: float) -> None:
    """Meet the other workers of this attempt; to be called when ready, for from here on they wait for us."""
    address, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500"))
    if ipaddress.ip_address(socket.gethostbyname(address)).is_loopback:
        # On one machine the workers need no outside address, which gloo would choose.
        loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    # The store's own server listens on all addresses, unless it is given a socket that listens already.
    server = socket.create_server((address, port), backlog=width) if rank == 0 else None
    patience = timedelta(seconds=patience_s)
    store = dist.TCPStore(
        address, port, width, rank == 0, patience, wait_for_workers=False,
        master_listen_fd=server.detach() if server else None,
    )  # fmt: skip
    # Those of an earlier attempt who come late must not be taken for ours.
    ours = dist.PrefixStore(f"attempt-{os.environ.get('SLACKTIDE_ATTEMPT', '0')}", store)
    ours.set(f"here-{rank}", "")
    ours.wait([f"here-{other}" for other in range(width)], patience)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    # Half of the grace: a silent peer must leave enough time to save when a stop is requested.
    timeout = timedelta(seconds=min(patience_s, grace_s / 2))
    dist.init_process_group(backend, store=ours, rank=rank, world_size=width, timeout=timeout)


class Training:
    """The state of a run at one rank, in one set of workers after another, and how it moves on by a step."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        cuda = torch.cuda.is_available()
        # Where each worker is shown one GPU, that one is number 0 whatever the local rank.
        index = int(os.environ.get("LOCAL_RANK", "0")) % max(1, torch.cuda.device_count())
        self.device = torch.device("cuda", index) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        self.language = Language(options.seed)
        self.model = Transformer(options.seed).to(self.device)
        self.adam = torch.optim.AdamW(
            [value for value in self.model.parameters() if value.requires_grad], lr=options.learning_rate
        )
        self.parallel: DistributedDataParallel | None = None
        self.step, self.saved_step = -1, 0  # -1: there is no state to go on from

    def enter(self) -> None:
        """Learn this worker's place in a set, and meet the others; raises Lost or Refused."""
        self.rank, self.width = place()
        share = self.options.parallel_share
        self.pace_s = self.options.step_seconds * (1 - share + share / self.width)  # Amdahl's law
        self.shelf = None if self.rank else Shelf(worker.checkpoint_dir or Path("checkpoints"))
        self.saved_step = 0
        with peers_needed():
            grace_s = float(os.environ.get("SLACKTIDE_GRACE_SECONDS", "30"))
            join(self.rank, self.width, self.options.peer_seconds, grace_s)

    def begin(self) -> None:
        """Go on from the newest state in memory, else from a checkpoint; raises Refused if another job's."""
        steps = [-1] * self.width
        with peers_needed():
            dist.all_gather_object(steps, self.step)
            source = steps.index(max(steps))
            anew = steps[source] < 0
            found = [(self.shelf.newest() if self.shelf else None) if anew else self.content(source)]
            dist.broadcast_object_list(found, src=source, device=self.device)
        self.load(found[0], saved=anew)
        with peers_needed():
            self.parallel = DistributedDataParallel(self.model)
        if self.step > self.saved_step:
            self.save()
        else:
            self.report()

    def content(self, source: int) -> dict[str, Any] | None:
        """Return all that training depends on, at the rank that has it."""
        if self.rank != source:
            return None
        content = {"step": self.step, "seed": self.options.seed, "adapters": self.model.adapters()}
        return {**content, "optimizer": self.adam.state_dict()}

    def load(self, found: dict[str, Any] | None, *, saved: bool) -> None:
        """Take over what another worker or a checkpoint holds; None: begin."""
        if found is None:
            self.step = 0
            return
        if found["seed"] != self.options.seed:
            raise Refused(f"the checkpoint's seed must be {self.options.seed}, got {found['seed']}")
        self.model.load_state_dict(found["adapters"], strict=False)
        self.adam.load_state_dict(found["optimizer"])
        self.step = found["step"]
        self.saved_step = self.step if saved else 0

    def leave(self) -> None:
        """Part from the workers of this set."""
        self.parallel = None
        if dist.is_initialized():
            dist.destroy_process_group()

    def advance(self, stop: Stop) -> bool:
        """Do one step; return whether anybody has to leave. When a peer is lost nothing has changed."""
        assert self.parallel is not None
        until_s = time.monotonic() + self.pace_s
        text = self.language.batch(self.step).tensor_split(self.width)[self.rank].to(self.device)
        loss = summed_loss(self.parallel(text[:, :-1]), text)
        self.adam.zero_grad()
        stop.rest(until_s)
        asked = torch.tensor([float(stop.changing)], device=self.device)
        with peers_needed():
            # The average over ranks that DistributedDataParallel takes becomes the mean over all symbols.
            (loss * self.width / (BATCH * CONTEXT)).backward()
            dist.all_reduce(asked)
            changing = bool(asked.item())
        self.adam.step()
        self.step += 1
        return changing

    def save(self) -> None:
        """Save this step unless it is saved, then report it: never the other way round."""
        if self.shelf and self.step > self.saved_step:
            self.shelf.save(self.step, self.content(0) or {})
            self.saved_step = self.step
            self.report()

    def report(self) -> None:
        """Report the progress, with the loss on text that is never trained on."""
        if self.rank == 0:
            done, loss = self.step / self.options.steps, self.held_out_loss()
            worker.progress(done, checkpointed=self.saved_step / self.options.steps, loss=loss)
            print(f"{done:.1%} done, loss {loss:.4f}", flush=True)

    @torch.no_grad()
    def held_out_loss(self) -> float:
        text = self.language.held_out().to(self.device)
        return summed_loss(self.model(text[:, :-1]), text).item() / (HELD_OUT * CONTEXT)


def place() -> tuple[int, int]:
    """Return rank and width of this worker; raises Refused when they make no sense."""
    rank, width = worker.rank, worker.world_size
    if not 0 <= rank < width <= BATCH:
        raise Refused(f"RANK must be below WORLD_SIZE and that at most {BATCH}, got {rank} and {width}")
    return rank, width


def train(options: argparse.Namespace, stop: Stop) -> bool:
    """Train to the end or to a stop; return whether it is the end. Raises Lost or Refused."""
    place()
    training = Training(options)
    if not worker.ready():
        return False
    while True:
        lost = None
        try:
            train_in_one_set(training, stop)
        except Lost as error:
            lost = error
        if training.step >= options.steps:
            return True
        if lost and torch.cuda.is_available():  # NCCL would wait for the peer that is gone
            raise lost
        training.leave()
        if stop.asked or not worker.reform():
            if lost:
                raise lost
            return False


def train_in_one_set(training: Training, stop: Stop) -> None:
    """Train until the work is done or the set of workers has to change; rank 0 saves. Raises Lost."""
    training.enter()
    stop.heed()
    training.begin()
    changing = False
    try:
        while training.step < training.options.steps and not changing:
            changing = training.advance(stop)
            if training.step % training.options.checkpoint_every == 0:
                training.save()
    finally:
        training.save()


def main() -> int:
    """Train, and return the exit code."""
    parser = argparse.ArgumentParser(description="Fine-tune a small transformer with LoRA, elastically.")
    parser.add_argument("--steps", type=int, default=400, help="total steps (%(default)s)")
    parser.add_argument("--checkpoint-every", type=int, default=20, help="steps between them (%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=0.005, help="of AdamW (%(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="of base, adapters and language (%(default)s)")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="least time of a step on one GPU")
    parser.add_argument("--parallel-share", type=float, default=1.0, help="share of it that GPUs share")
    parser.add_argument("--peer-seconds", type=float, default=60.0, help="patience with peers (%(default)s)")
    options = parser.parse_args()
    if min(options.steps, options.checkpoint_every) < 1:
        parser.error(f"steps must be >= 1, got {options.steps} and {options.checkpoint_every}")
    stop = Stop()
    try:
        return 0 if train(options, stop) else EXIT_STOPPED
    except Refused as error:
        print(f"train: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except Lost as error:
        print(f"train: {error}", file=sys.stderr)
        return EXIT_STOPPED if stop.asked else EXIT_LOST


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the orderly way would wait for peers that may be gone
