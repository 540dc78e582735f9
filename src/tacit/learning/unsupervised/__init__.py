"""Private clusters and principal components, scalers, and features for kernel methods."""
