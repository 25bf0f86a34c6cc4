"""Workers on machines other than the controller's: an agent on each machine, and the messages to it.

Begin with `backend`, then `job`; `agent` runs on the machine, `link` carries messages.
"""
