"""The papers' experiments: a plug-in of Slacktide's command line, `slacktide reproduce`.

Each paper is a folder: its experiments as plain functions, settings in and rows of numbers out, and the page,
figures and sentences made from these rows. Nothing in `slacktide` imports this package.
"""
