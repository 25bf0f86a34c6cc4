"""Pictures, one file for each kind; all are drawn in the style of `style`."""
