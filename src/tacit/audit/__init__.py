"""Attacks on measurements, training runs, channels and releases: a lower bound, with its confidence, beside every proof."""
