"""How a controller reaches the agents of machines, whatever carries the messages.

Begin with `exchange`.
"""
