"""Imported by the server that sessions are forked from: LiteLLM as cilab loads it, quiet and off line."""

from cilab.collect.litellm_model import load_litellm

load_litellm()
