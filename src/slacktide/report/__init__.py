"""Results as text, pictures, HTML pages and JSON; the figures are those of the result.

Begin with `words`, how numbers are written; `text`, `figures`, `pages`, `wire` and `live` have a module for
each subject.
"""
