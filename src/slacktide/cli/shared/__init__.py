"""What several commands share: options, confirmations, output and signals.

Begin with `options`.
"""
