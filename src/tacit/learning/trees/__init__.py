"""Trees: one tree, forests, boosting."""
