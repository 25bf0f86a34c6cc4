"""Kong et al. 2025: utility against deadlines, volatility and forecasts, and the selection of policies."""
