"""The only code that calls a model: run specs in, rollouts out.

`model` is the one protocol, `spec` says what is to be played, `engine` plays it and never pays twice.
May import `cilab.store`, `cilab.store.journal` and `cilab.core`; never a benchmark.
"""
