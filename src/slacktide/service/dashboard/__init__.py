"""The dashboard's pages and their scripts.

Begin with `pages`; `static` has the scripts.
"""
