"""Results as tables and text for a terminal, a module for each subject."""
