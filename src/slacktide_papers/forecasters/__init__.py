"""Forecasters to compare with: the truth with noise of a known size, ARIMA as the paper uses it, the last days.

Each is a plug-in by an entry point; begin with `noisy_truth`.
"""
