"""Counting the ballots of the assembly."""
