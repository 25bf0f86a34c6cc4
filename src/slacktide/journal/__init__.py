"""What happened to jobs, as events: their types, where they are kept, and the state that is folded from them.

Begin with `events`; `store` keeps them, `codec` writes them as JSON, `state` folds them.
"""
