"""The experiments of the papers on streams of jobs: means against budgets, policies at equal bills."""
