"""Bills and audits of a journal: stretches priced again, beside what others would have paid.

Begin with `bill`.
"""
