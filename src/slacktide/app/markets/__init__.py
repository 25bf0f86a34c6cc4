"""Markets: read, made, followed and forecast.

Begin with `market`.
"""
