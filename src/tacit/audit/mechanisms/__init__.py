"""Attacks on a mechanism as a black box: neighbours, replay, search over outputs, floats, timing."""
