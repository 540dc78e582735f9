"""Case studies on their users' own files: a hospital's, a grid operator's, a video archive's.

Each field has a package of its own, which is a door: import from `tacit.applications.health` and its neighbours, and
only what they export. They bring formats, sensitivities and pictures. Noise, prices, payments and jobs are those of
the rooms above.
"""

# Imports inside functions: scipy, pandas and pictures are needed by few of them, and some formats are extras.

# One name a line; the packages are imported where they are used.
__all__ = [
    "energy",
    "health",
    "vision",
]
