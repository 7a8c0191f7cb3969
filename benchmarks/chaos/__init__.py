"""Faults of processes, networks, storage, catalogs, disks, memory and clocks, drawn from a seed, below trainers and writers.

Tables lie on S3, behind a REST catalog that vends keys, and behind a SQL catalog in PostgreSQL. Three servers with TLS and
tokens serve them. Trainers log each step, a writer makes one change after another, and features are promoted and demoted.
Keys, tokens and certificates expire and rotate 24 times as fast as usual. In the end everything is repaired, and the logs
are compared with an undisturbed read of the same snapshots and with values that follow from row numbers.
"""
