"""The panels of pictures, each drawn into axes it is given."""
