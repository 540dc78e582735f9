"""The textbook's theorems, one at a time: composition, amplification, Rényi curves, conversions, selection."""
