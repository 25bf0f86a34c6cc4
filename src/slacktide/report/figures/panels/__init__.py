"""The panels of pictures, each drawn into given axes."""
