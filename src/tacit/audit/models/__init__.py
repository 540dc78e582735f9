"""Attacks on trained models: membership games, canaries, poisoning, extraction, attributes."""
