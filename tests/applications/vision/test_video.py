"""Videos: frame by frame at its full price, icons on a public background, files in and out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import Adjacency, Repeated
from tacit.applications.vision import (
    Mask,
    Pixelize,
    Presence,
    VisionError,
    frames,
    frames_event,
    icons,
    per_frame,
    release_frames,
    release_tracks,
    total_epsilon,
    write_video,
)
from tacit.ledger import Budget, BudgetExceeded, Ledger

METHOD = Pixelize(cell=16, pixels=16, epsilon="0.5")


def clip(count: int = 4) -> list[np.ndarray]:
    return [np.full((32, 48, 3), 10 * n, np.uint8) for n in range(count)]


def test_ten_seconds_frame_by_frame_cost_150() -> None:
    assert total_epsilon(frames_event(METHOD, 300)) == pytest.approx(150)
    one = Pixelize(cell=16, pixels=16, guarantee=per_frame(300, epsilon=3))
    assert total_epsilon(frames_event(one, 300)) == pytest.approx(3)


def test_the_price_of_all_frames_is_booked_and_said(tmp_path: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    unit = "up to 16 pixels of a picture, in each of 4 frames"
    account = ledger.account("clip", Budget(epsilon=2), unit=unit, adjacency=Adjacency.REPLACE_ONE)
    found = release_frames(METHOD, clip(), account=account)
    assert found.unit == unit and found.event == Repeated(METHOD.event, 4) and account.left() == {"pure": 0}
    with pytest.raises(BudgetExceeded):
        release_frames(METHOD, clip(), account=account)
    other = ledger.account("one frame", Budget(epsilon=2), unit=METHOD.unit, adjacency=Adjacency.REPLACE_ONE)
    with pytest.raises(VisionError, match="must not be added up"):
        release_frames(METHOD, clip(), account=other)


def test_frames_of_different_sizes_and_no_frames_are_refused() -> None:
    for given in ([], [*clip(1), np.zeros((32, 48), np.uint8)]):
        with pytest.raises(VisionError, match="at least one frame"):
            release_frames(METHOD, given)
    with pytest.raises(VisionError, match="no guarantee"):
        release_frames(Mask(), clip())


def test_icons_show_presence_and_nothing_else() -> None:
    """Two sets of tracks with the same reports give the same pictures: places are made up along public lines."""
    released = release_tracks(Presence(keyframes=3, epsilon=60), np.ones((6, 3), int))
    background = np.full((60, 80), 100, np.uint8)
    made = icons(background, released, [[(5, 30), (75, 30)], [(40, 5), (40, 55)]])
    assert [m.shape for m in made] == [(60, 80, 3)] * 3 and all((m != 100).any() for m in made)
    empty = release_tracks(Presence(keyframes=3, epsilon=60), np.zeros((6, 3), int))
    assert all((m == 100).all() for m in icons(background, empty, [[(5, 30), (75, 30)]]))
    for paths in ([], [[(1, 2)]], [[(1, 2), (float("nan"), 3)]]):
        with pytest.raises(VisionError, match="public lines"):
            icons(background, released, paths)


def test_files_in_and_out(tmp_path: Path) -> None:
    write_video(tmp_path / "clip.mp4", clip(6))
    again = list(frames(tmp_path / "clip.mp4"))
    assert len(again) == 6 and again[0].shape == (32, 48, 3)
    assert max(abs(float(frame.mean()) - 10 * n) for n, frame in enumerate(again)) < 12  # the codec loses a little
    assert len(list(frames(tmp_path / "clip.mp4", every=2))) == 3 and len(list(frames(tmp_path / "clip.mp4", most=2))) == 2
    (tmp_path / "text.mp4").write_text("hello")
    for name in ("text.mp4", "absent.mp4"):
        with pytest.raises(VisionError, match=name):
            list(frames(tmp_path / name))
    with pytest.raises(VisionError, match="at least one frame"):
        write_video(tmp_path / "none.mp4", [])


def test_a_video_that_is_cut_off_is_refused_by_its_name(tmp_path: Path) -> None:
    """In a stream that can be opened, a broken frame is a refusal without what the decoder says."""
    write_video(tmp_path / "clip.avi", [np.random.default_rng(n).integers(0, 256, (64, 96, 3), dtype=np.uint8) for n in range(12)])
    whole = (tmp_path / "clip.avi").read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9):
        damaged = tmp_path / f"cut{share}.avi"
        damaged.write_bytes(whole[: int(share * len(whole))])
        try:
            assert len(list(frames(damaged))) < 12
        except VisionError as refused:
            assert damaged.name in str(refused)


def test_what_a_decoder_says_is_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.applications.vision import video

    class Broken:
        class streams:
            video = (0,)

        def __enter__(self) -> Broken:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def decode(self, video: int):
            yield from ()
            raise OSError("pixel 17 is 255")

    monkeypatch.setattr(video, "_av", lambda: type("av", (), {"open": staticmethod(lambda path: Broken())}))
    with pytest.raises(VisionError, match="it is cut off or damaged") as caught:
        list(frames("street.mp4"))
    assert "255" not in str(caught.value) and caught.value.__suppress_context__
