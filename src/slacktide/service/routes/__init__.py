"""The routes of the HTTP API: what each address takes and answers.

Begin with `endpoints`; to add an address, add a method to one of the classes here.
"""
