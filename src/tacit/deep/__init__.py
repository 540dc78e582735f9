"""Private training of PyTorch models: the model and optimiser one already has, clipped per example, noised once a step, priced by event."""
