"""Said once: errors, tables and their words, frames, models, files of the package, redaction.

Imports nothing of ours. Calls no model, reads no run, computes no statistic.
"""
