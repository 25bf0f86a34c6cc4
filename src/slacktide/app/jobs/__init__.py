"""Submitting jobs and running them: a submission, its check, its record in the journal, and the controller.

Begin with `submission`, then `controller`.
"""
