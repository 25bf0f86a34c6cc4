"""Bills and audits of a journal: stretches priced again, compared with what other policies would have paid.

Begin with `bill`.
"""
