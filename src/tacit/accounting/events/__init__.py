"""Events: immutable records of what was done to the data, their leaves, sampling schemes and JSON form."""
