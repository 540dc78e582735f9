"""Attacks on releases, each shown once: on a raw release and on Tacit's release of the same data."""
