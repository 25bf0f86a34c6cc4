"""Workers on machines other than the controller's: an agent on each machine, and the messages to it.

Begin with `backend`, then `remote_job`; `agent` runs on the machine, `exchange` sends it messages.
"""
