"""The stage of the campaigns with real processes: a journal, its jobs and its controllers in one folder."""
