"""The journal of all that happened to jobs: the events, where they are kept, the state folded from them.

Begin with `events`; `store` keeps them, `codec` writes them as JSON, `state` folds them.
"""
