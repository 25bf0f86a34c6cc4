"""Forecasters to compare with: the truth with noise of a known size, ARIMA as in the paper, the last days.

Each is a plug-in by an entry point; begin with `noisy_truth`.
"""
