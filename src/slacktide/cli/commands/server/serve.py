"""`slacktide serve`: the controller of a journal with an HTTP API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from slacktide.cli.shared.journals import journal_option, journal_path
from slacktide.cli.shared.output import say
from slacktide.cli.shared.run_options import run_options_of, setup_of, staying_options
from slacktide.core.errors import InputError

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8470, show_default=True, help="0: any free one."
)
@click.option(
    "--name", "names", multiple=True, metavar="NAME", help="A host name by which clients reach the server."
)
@click.option("--tls-cert", type=FILE, metavar="FILE", help="Certificate chain in PEM form.")
@click.option("--tls-key", type=FILE, metavar="FILE", help="Its private key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy does TLS and passes requests on.")
@click.option(
    "--rate", type=click.FloatRange(min=1), default=200.0, show_default=True, metavar="N",
    help="Requests per second for each token.",
)  # fmt: skip
@click.option(
    "--keep-days", type=click.FloatRange(min=0), default=7.0, show_default=True, metavar="N",
    help="Days for which files of jobs from clients are kept after their end.",
)  # fmt: skip
@click.option(
    "--warm-up/--no-warm-up", default=True, show_default=True,
    help="Compile in advance what plans and back-tests need, at low priority.",
)  # fmt: skip
@staying_options
@journal_option
def serve(**given: Any) -> None:
    """Run the jobs of a journal and answer HTTP requests, until Ctrl-C or SIGTERM.

    As `slacktide controller`, with an API under /api/v1 for `--server URL`, browsers and programs. Listens
    on the loopback; elsewhere only with TLS, its own or a proxy's. Clients need a token: see `slacktide
    token`. Prints `ready on URL` when it answers, then a line for everything that changes.
    """
    try:
        from slacktide.service.listening import Address
        from slacktide.service.server import serve
    except ModuleNotFoundError as error:
        raise InputError(
            f"the server must have its libraries, found no {error.name}; pip install 'slacktide[serve]'"
        ) from error
    from slacktide.app.tokens import tokens_of
    from slacktide.cli.shared.broken_pipe import steady_output

    address = Address(
        host=given["host"], port=given["port"], names=given["names"], certificate=given["tls_cert"],
        key=given["tls_key"], behind_proxy=given["behind_proxy"], rate_per_s=given["rate"],
        keep_days=given["keep_days"], warms_up=given["warm_up"],
    )  # fmt: skip
    address.check()
    defaults = run_options_of(given).for_all()
    defaults.check()
    path = journal_path(given["journal"])
    tokens = tokens_of(path)
    if not tokens.all():
        say("there is no token yet: `slacktide token add NAME --role submit` makes one", err=True)
    with steady_output():
        serve(path, address, setup_of(given, defaults), tokens, say)
