"""Writes duckdb-1.parquet and duckdb-2.parquet: files that only DuckDB writes.

It pads the last run of levels and indices to 256 of them, and has bloom filters of
dictionary-encoded columns. Run with DuckDB: python make_duckdb.py
"""

import duckdb

con = duckdb.connect()
con.execute(
    """
    CREATE TABLE t AS SELECT
        i::INTEGER AS number,
        CASE WHEN i % 7 = 0 THEN NULL ELSE 'row ' || (i % 50) END AS name,
        CASE WHEN i % 5 = 0 THEN NULL ELSE (i * 37)::DECIMAL(9, 2) END AS small,
        (i::HUGEINT * 10000000000000000000)::DECIMAL(38, 5) AS large,
        CASE WHEN i % 3 = 0 THEN NULL ELSE [i, i + 1, NULL] END AS many,
        {'a': i, 'b': 'x' || i} AS pair,
        MAP(['k' || i], [i]) AS pairs,
        i % 2 = 0 AS flag,
        i / 8.0::DOUBLE AS half,
        TIMESTAMP '2001-01-01' + to_hours(i) AS moment
    FROM range(300) r(i)
    """
)
for version in (1, 2):
    con.execute(
        f"""
        COPY t TO 'duckdb-{version}.parquet' (
            FORMAT parquet, PARQUET_VERSION v{version}, CODEC zstd,
            FIELD_IDS {{number: 1, name: 2, small: 3, large: 4, many: 5, pair: 6, pairs: 7, flag: 8, half: 9, moment: 10}}
        )
        """
    )
