"""Brings what is rented to what is wanted. Nothing else rents machines or ends them.

A ticket is written down before the provider receives it, and closed before its machine is ended. So at any
crash an open ticket without a machine is requested again, which gives no second one, and a machine without
an open ticket is ended. All that must survive is in the diary and in the provider's list; what a reconciler
remembers in addition only makes it patient.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping

from slacktide.core.waits import RetryTable
from slacktide.journal.state.tickets import MachineKind, MachineLog
from slacktide.providers.base import Provider, Refused, Rules, Stock, Unreachable, Use
from slacktide.providers.listing import Listing
from slacktide.providers.reconcile_step import ReconcilerMemory, ReconcileStep

PLAIN_USE = Use()  # nothing is known but what the provider says


class Reconciler:
    """Keeps the machines of one journal."""

    def __init__(self, provider: Provider, diary: MachineLog, rules: Rules, *, token: str = "") -> None:
        """Rent from a provider by a diary; `token` goes into the names of tickets.

        It is random unless given, so that not even an older copy of the journal names a ticket twice.
        """
        self.provider, self.diary, self.rules = provider, diary, rules
        self.token = token or secrets.token_hex(3)
        self._memory, self._stepped_hours = self._nothing_known(), -math.inf

    def step(self, want: Mapping[MachineKind, int], now_hours: float, use: Use = PLAIN_USE) -> Stock:
        """List, close, end, request, open: in this order, so that what is too much goes before more comes.

        `want` says how many machines of each kind there should be, the most important first. Raises what the
        diary raises when nothing can be written, and then nothing was done that it does not explain.
        """
        if now_hours < self._stepped_hours:  # the clock was set: what was to be waited for is over
            self._memory = self._nothing_known()
        self._stepped_hours = now_hours
        try:
            machines = self.provider.machines()
        except (Unreachable, Refused) as error:
            return Stock(trouble=f"the machines could not be listed: {error}", listed=False)
        listing = Listing(machines, self.diary.tickets().open)
        return ReconcileStep(
            self.provider, self.diary, self.rules, self._memory, listing, use, now_hours, self.token
        ).run(want)

    def _nothing_known(self) -> ReconcilerMemory:
        return ReconcilerMemory(RetryTable(self.rules.first_wait_hours, self.rules.longest_wait_hours))
