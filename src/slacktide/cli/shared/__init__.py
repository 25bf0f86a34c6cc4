"""What several commands share: options, questions, output and signals.

Begin with `options`.
"""
