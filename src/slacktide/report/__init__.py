"""Results as text, pictures, pages and JSON; nothing is computed here that a result does not say.

Begin with `words`, how numbers are written; `text`, `figures`, `pages`, `wire` and `live` have a module for
each subject.
"""
