"""The commands, in folders by what they are about.

A command is a module with a function of its name; `slacktide.cli` lists them.
"""
