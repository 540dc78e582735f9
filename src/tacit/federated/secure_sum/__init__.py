"""Sums under masks (Bell, Bonawitz, Gascon, Lepoint, Raykova 2020): the server learns the sum of the
survivors' vectors only.

`graph` says who masks with whom, `keys` and `shamir` hold the cryptography, `masks` the streams, `wire` the
messages, `client` and `server` the two state machines.
"""
