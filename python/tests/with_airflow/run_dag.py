"""Runs a DAG once in this process, as `airflow dags test` does, without pauses between tries.

run_dag.py FILE DATE prints a line of JSON: the state of the run, and the state and number of tries of each task.
"""

from __future__ import annotations

import datetime
import json
import runpy
import sys

dag = runpy.run_path(sys.argv[1])["dag"]
for task in dag.tasks:
    task.retry_delay = datetime.timedelta(0)
    task.retry_exponential_backoff = 0
run = dag.test(logical_date=datetime.datetime.fromisoformat(sys.argv[2]).replace(tzinfo=datetime.UTC))
tasks = {one.task_id: [str(one.state), one.try_number] for one in run.get_task_instances()}
print(json.dumps({"run": str(run.state), **tasks}))
