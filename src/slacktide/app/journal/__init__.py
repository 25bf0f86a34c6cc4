"""What a journal says about its jobs: their status, history, output and timeline.

Begin with `journal`.
"""
