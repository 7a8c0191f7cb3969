"""Writes duckdb-wide.parquet: INT32 whose deltas exceed 32 bits, as DuckDB writes them.

Version 2 pages of DuckDB have DELTA_BINARY_PACKED with sums and differences of 64 bits.
pyarrow cannot read these columns. Run with DuckDB: python make_duckdb_wide.py
"""

import duckdb

low, high = -(2**31), 2**31 - 1

con = duckdb.connect()
con.execute(
    f"""
    CREATE TABLE t AS SELECT
        CASE WHEN i % 7 = 3 THEN NULL WHEN i % 2 = 0 THEN {high} ELSE {low} END::INTEGER AS number,
        CASE WHEN i % 2 = 0 THEN {high} ELSE {low} + i END::INTEGER AS whole,
        CASE WHEN i % 5 = 0 THEN NULL
            ELSE [CASE WHEN j % 3 = 0 THEN NULL WHEN j % 2 = 0 THEN {high} - i ELSE {low} + j END::INTEGER for j in range(i % 6)]
            END AS many,
        {{'a': CASE WHEN i % 2 = 0 THEN {low} ELSE {high} END::INTEGER,
          'b': CASE WHEN i % 2 = 0 THEN {-(2**63)} ELSE {2**63 - 1} END::BIGINT}} AS pair,
        CASE WHEN i % 2 = 0 THEN DATE '9999-01-01' ELSE DATE '0001-01-01' END AS moment,
        CASE WHEN i % 3 = 0 THEN {-(2**63)} WHEN i % 3 = 1 THEN {2**63 - 1} ELSE i END::BIGINT AS large
    FROM range(700) r(i)
    """
)
con.execute(
    """
    COPY t TO 'duckdb-wide.parquet' (
        FORMAT parquet, PARQUET_VERSION v2, CODEC zstd, DICTIONARY_SIZE_LIMIT 1,
        FIELD_IDS {number: 1, whole: 2, many: 3, pair: 4, moment: 5, large: 6}
    )
    """
)
