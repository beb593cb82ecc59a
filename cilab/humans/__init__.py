"""Samples for people, their forms, and their answers read back.

May import `cilab.core`, `cilab.store`, `cilab.show` and `cilab.datasets`. Calls no model.
"""
