"""Evaluates a dataset with Polars, split by split, and continues where it was killed.

For each value of a column it counts rows and sums labels. Each split has a result file in the
folder; those that are there are not read again.

    python evaluate_polars.py 127.0.0.1:8815 homefeed results --label label --by country
"""

from __future__ import annotations

import argparse

import polars as pl

import penstock


def main() -> None:
    """Evaluates the remaining splits, and prints the result of all."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("server", help="host:port")
    arguments.add_argument("dataset")
    arguments.add_argument("folder", help="of the results of this run")
    arguments.add_argument("--label", default="label")
    arguments.add_argument("--by", default="country")
    given = arguments.parse_args()
    label, by = given.label, given.by

    def evaluate(stream: penstock.Stream) -> pl.DataFrame:
        sums = (
            pl.len().alias("rows"),
            pl.col(label).is_not_null().sum().alias("labelled"),
            pl.col(label).sum(),
        )
        return pl.DataFrame(stream).group_by(by).agg(*sums)

    with penstock.connect(given.server) as client:
        done = client.evaluate(
            given.dataset, given.folder, evaluate, columns=[label, by], threads=2, progress="auto"
        )
    print(f"read {done.read} of {len(done.files)} splits, {done.rows} rows")
    whole = pl.read_parquet(list(done.files)).group_by(by).agg(pl.all().sum()).sort(by)
    with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True):
        print(whole.with_columns((pl.col(label) / pl.col("labelled")).alias("rate")))
    whole.write_json(f"{given.folder}/result.json")


if __name__ == "__main__":
    main()
