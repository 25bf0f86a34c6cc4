"""Names written next to points, where they hide no other name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE_PT = 8.0
WIDTH_PT, HEIGHT_PT = 0.6 * SIZE_PT, 1.3 * SIZE_PT  # about as much room as a character takes
GAP_PT = 7.0  # from a point's middle to its name


class _Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: _Box) -> bool:
        apart = self.right < other.left or other.right < self.left
        return not (apart or self.top < other.bottom or other.top < self.bottom)


def name_points(ax: Axes, points: Mapping[str, tuple[float, float]], colours: Mapping[str, str]) -> None:
    """Write each name right of its point, or left, below or above it where that hides another one.

    Call it when the axes have their limits: where names are depends on them.
    """
    frame = ax.get_window_extent()
    per_pt = ax.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    taken = [_around(ax, at, per_pt) for at in points.values()]
    for name, at in points.items():
        x, y = ax.transData.transform(at) / per_pt
        choices = [_box(x, y, len(name) * WIDTH_PT, side) for side in ("left", "right", "below", "above")]
        inside = [box for box in choices if box.right * per_pt < frame.x1 and box.left * per_pt > frame.x0]
        free = [box for box in inside if not any(box.meets(other) for other in taken)]
        box = (free or inside or choices)[0]
        taken.append(box)
        offset = box.left - x, (box.bottom + box.top) / 2 - y
        ax.annotate(
            name, at, offset, textcoords="offset points", va="center", size=SIZE_PT, color=colours[name]
        )


def _around(ax: Axes, at: tuple[float, float], per_pt: float) -> _Box:
    x, y = ax.transData.transform(at) / per_pt
    return _Box(x - GAP_PT / 2, y - GAP_PT / 2, x + GAP_PT / 2, y + GAP_PT / 2)


def _box(x: float, y: float, width: float, side: str) -> _Box:
    """Return the room of a name whose point lies at this side of it."""
    if side in ("left", "right"):
        left = x + GAP_PT if side == "left" else x - GAP_PT - width
        return _Box(left, y - HEIGHT_PT / 2, left + width, y + HEIGHT_PT / 2)
    bottom = y + GAP_PT if side == "below" else y - GAP_PT - HEIGHT_PT
    return _Box(x - width / 2, bottom, x + width / 2, bottom + HEIGHT_PT)
