"""Private tree models: single trees, forests and gradient boosting."""
