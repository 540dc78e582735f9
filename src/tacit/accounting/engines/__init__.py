"""The engines that compose pairs: contour integral, certified grid, random allocation, ball arithmetic."""
