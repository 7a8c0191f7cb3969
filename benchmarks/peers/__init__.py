"""The contenders, each a module that runs in its own process.

`python -m peers.NAME --inputs FILE --batch-rows N` joins the files that the
inputs name, all columns, and prints one line of JSON (`contender.Outcome`).
Those that read from a server are also given `--address` and `--server`.
"""
