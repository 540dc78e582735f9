"""Ways to hide a face side by side (the book's Table 11.1), and heat maps of gaze with and without noise (its Figure 11.8).

Needs `pip install 'tacit[vision]'`. The portrait is scikit-image's, the gaze is made up. Writes contact_sheet.png and
heat_maps.png into the directory given, and prints what each method costs and leaves.

    python examples/hidden_pictures.py pictures
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from skimage import color, data, transform

from tacit.applications import vision


def portrait() -> np.ndarray:
    """A face of 128 x 128 pixels in grey."""
    grey = color.rgb2gray(data.astronaut()[0:200, 125:325])
    return np.rint(255 * transform.resize(grey, (128, 128), anti_aliasing=True)).astype(np.uint8)


def gallery() -> tuple[np.ndarray, ...]:
    """A hundred other faces of the same size, for k-same."""
    faces = data.lfw_subset()[:100]
    return tuple(np.rint(255 * transform.resize(face, (128, 128))).astype(np.uint8) for face in faces)


def contact_sheet(path: Path) -> None:
    """One face, hidden in eleven ways, each with its price and the similarity that is left."""
    face = portrait()
    shown = {
        "original": None,
        "mask": vision.Mask(),
        "pixelization": vision.PlainPixelize(cell=16),
        "blur": vision.PlainBlur(kernel=99),
        "k-same, k = 5": vision.KSame(gallery(), 5),
        "DP-Pix, m 16, ε 0.5": vision.Pixelize(cell=16, pixels=16, epsilon=0.5),
        "DP-Pix, m 16, ε 5": vision.Pixelize(cell=16, pixels=16, epsilon=5),
        "DP-Pix, m 360, ε 5": vision.Pixelize(cell=16, pixels=360, epsilon=5),
        "DP-Blur, m 16, ε 0.5": vision.Blur(kernel=99, pixels=16, epsilon=0.5),
        "256-ary response, ε 5": vision.PixelResponse(pixels=1, epsilon=5),
        "pixel sampling, δ 0.05 and no ε": vision.PixelSampling(keep=0.05, pixels=1),
        "DP-SVD, rank 4, ε 0.5 a unit": vision.Singular(rank=4, radius=1, epsilon=0.5),
    }
    figure = Figure(figsize=(9.6, 8.2), dpi=130)
    figure.subplots_adjust(left=0.03, right=0.98, top=0.96, bottom=0.06, hspace=0.34, wspace=0.12)
    for place, (name, method) in enumerate(shown.items()):
        made = face if method is None else vision.release(method, face).pixels
        price = "" if method is None else "no guarantee" if method.event is None else method.unit
        similar = vision.ssim(face, made)
        print(f"{name:<30} SSIM {similar:5.2f}  {price}")
        ax = figure.add_subplot(3, 4, place + 1)
        ax.imshow(made, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        ax.set_title(name, fontsize=9, loc="left")
        ax.set_xlabel(price.replace(", with", ",\nwith") + f"\nSSIM {similar:.2f}" if price else "", fontsize=6.5, loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
    figure.savefig(path)


def heat_maps(path: Path) -> None:
    """Where people looked on a screen: exactly, and with noise at epsilon 3 for points 20 pixels apart, one or any ten of them."""
    draw = np.random.default_rng(8)
    spots = [(480, 300), (960, 420), (1400, 760)]
    points = np.concatenate([draw.normal(spot, 70, (250, 2)) for spot in spots]).clip(0, (1919, 1079))
    maps = {"without noise": vision.heat_map(points)}
    for window in (1, 10):
        stream = vision.GazeStream(radius=20, window=window, epsilon=3)
        released = vision.release_gaze(stream, points).points
        kept = vision.compared(points, released)
        maps[f"ε 3 at 20 px, any {window}: correlation {kept['heat_map_correlation']:.2f}"] = vision.heat_map(released)
        print(f"any {window} points: moved by {kept['trajectory_error']:.0f} px, correlation {kept['heat_map_correlation']:.2f}")
    vision.plot_heat_maps(maps, path=path)


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0] if arguments else ".")
    folder.mkdir(parents=True, exist_ok=True)
    contact_sheet(folder / "contact_sheet.png")
    heat_maps(folder / "heat_maps.png")


if __name__ == "__main__":
    main(sys.argv[1:])
