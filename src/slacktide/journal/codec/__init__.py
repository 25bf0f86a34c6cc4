"""Events as JSON text and back, exactly.

Begin with `codec`; `old_journals` reads what earlier versions wrote.
"""
