"""Clusters, components, scalers and features."""
