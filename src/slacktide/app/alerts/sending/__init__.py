"""Sending alerts to hooks, in order and at least once: webhooks, commands and Slack.

Begin with `alerting`.
"""
