"""The commands, one module per topic.

Each command is a function of the same name; `slacktide.cli` lists them all.
"""
