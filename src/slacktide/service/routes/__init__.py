"""The addresses of the API: what each takes and answers.

Begin with `endpoints`; a new address is a method of one of the classes here.
"""
