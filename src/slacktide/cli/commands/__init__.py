"""The commands, in modules by what they are about.

A command is a function of its name; `slacktide.cli` lists them.
"""
