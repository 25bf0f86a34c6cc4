"""What is learned of a stream while it runs: arrival rates, job sizes, and who should get how many GPUs.

Begin with `rates`.
"""
