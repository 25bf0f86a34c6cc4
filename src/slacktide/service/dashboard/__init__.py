"""The dashboard's pages and their scripts.

Begin with `pages`, which serves them; `static` has the scripts: a module per page in `pages`, charts in
`pictures`.
"""
