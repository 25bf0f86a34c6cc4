"""Lets `python -m slacktide` do what `slacktide` does."""

from slacktide.cli import main

main()
