"""Alerts: which events of a journal lead to alerts, and the webhooks and commands that receive them.

Begin with `watch`, which finds them; `alerting` runs the threads of a controller, `sending` sends one alert.
"""
