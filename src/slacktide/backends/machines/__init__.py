"""Workers on machines other than the controller's: an agent on each, and what the controller asks of it.

Begin with `backend`, then `job`; `agent` runs on the machine, `link` carries messages.
"""
