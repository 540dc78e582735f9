"""Pictures and videos: pixelization, blur, tracks and gaze with noise, the older ways beside them, and the attack on both.

A method is a frozen record with a price (`event`) and what it protects (`unit`). `release` hides a picture once and
pays for it. `reidentify` learns to recognise hidden people, `quality` says what is left of a picture.

>>> import numpy as np
>>> method = Pixelize(cell=16, pixels=360, epsilon=1)
>>> release(method, np.zeros((64, 64, 3), np.uint8))
Hidden(64x64x3, Laplace(noise_multiplier=1, ...) for up to 360 pixels of a picture)
>>> round(method.scale(), 1)  # of 255 levels: nothing is left to see, and nothing to recognise
358.6

- methods with a guarantee: `Pixelize`, `Blur`, `PixelResponse`, `PixelSampling` (a delta and no epsilon), `Singular` (by
  distance)
- methods without one: `Mask`, `PlainPixelize`, `PlainBlur`, `KSame`, `Adversarial`, `FlipAttribute`
- videos: `Presence`, `presence_bits`, `release_tracks`, `icons`, `release_frames`, `per_frame`, `frames`, `write_video`
- eye tracking: `GazeStream`, `release_gaze`, `heat_map`
- files: `read`, `write`

Files need pillow and av, similarity needs scikit-image, attacks need scikit-learn: `pip install 'tacit[vision,learn]'`.
"""

from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
    # isort: off
    from tacit.applications.vision.baselines import Adversarial, FlipAttribute, KSame, Mask, PlainBlur, PlainPixelize
    from tacit.applications.vision.blur import Blur
    from tacit.applications.vision.gaze import GazeStream, ReleasedGaze, compared, heat_map, plot_heat_maps, release_gaze
    from tacit.applications.vision.images import Hidden, PictureMethod, VisionError, boxes_in, encoded, read, release, size_of, write
    from tacit.applications.vision.pixelize import Pixelize
    from tacit.applications.vision.pixels import PixelResponse, PixelSampling
    from tacit.applications.vision.quality import (
        correlation, count_error, histogram, js_divergence, kl_divergence, mse, psnr, quality, ssim, stay_time_error,
        stay_times, trajectory_error,
    )
    from tacit.applications.vision.reidentify import Reidentified, foretold, plot_risk, reidentify
    from tacit.applications.vision.singular import Singular
    from tacit.applications.vision.tracks import Presence, ReleasedTracks, presence_bits, release_tracks
    from tacit.applications.vision.video import (
        HiddenFrames, frames, frames_event, icons, per_frame, release_frames, total_epsilon, write_video,
    )
    # isort: on

#: Where the names are at home.
__getattr__, __dir__ = lazily(__name__, {
    "baselines": ("Adversarial", "FlipAttribute", "KSame", "Mask", "PlainBlur", "PlainPixelize"),
    "blur": ("Blur",),
    "gaze": ("GazeStream", "ReleasedGaze", "compared", "heat_map", "plot_heat_maps", "release_gaze"),
    "images": ("Hidden", "PictureMethod", "VisionError", "boxes_in", "encoded", "read", "release", "size_of", "write"),
    "pixelize": ("Pixelize",),
    "pixels": ("PixelResponse", "PixelSampling"),
    "quality": (
        "correlation", "count_error", "histogram", "js_divergence", "kl_divergence", "mse", "psnr", "quality", "ssim",
        "stay_time_error", "stay_times", "trajectory_error",
    ),
    "reidentify": ("Reidentified", "foretold", "plot_risk", "reidentify"),
    "singular": ("Singular",),
    "tracks": ("Presence", "ReleasedTracks", "presence_bits", "release_tracks"),
    "video": (
        "HiddenFrames", "frames", "frames_event", "icons", "per_frame", "release_frames", "total_epsilon", "write_video",
    ),
})  # fmt: skip

__all__ = [
    "Adversarial", "Blur", "FlipAttribute", "GazeStream", "Hidden", "HiddenFrames", "KSame", "Mask", "PictureMethod",
    "PixelResponse", "PixelSampling", "Pixelize", "PlainBlur", "PlainPixelize", "Presence", "Reidentified",
    "ReleasedGaze", "ReleasedTracks", "Singular", "VisionError", "boxes_in", "compared", "correlation", "count_error",
    "encoded", "foretold", "frames", "frames_event", "heat_map", "histogram", "icons", "js_divergence",
    "kl_divergence", "mse", "per_frame", "plot_heat_maps", "plot_risk", "presence_bits", "psnr", "quality", "read",
    "reidentify", "release", "release_frames", "release_gaze", "release_tracks", "size_of", "ssim", "stay_time_error",
    "stay_times", "total_epsilon", "trajectory_error", "write", "write_video",
]  # fmt: skip
