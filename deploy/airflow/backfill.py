"""An example for Airflow 3: one day of a feature is staged on a branch, verified and published.

Every task may be repeated, by Airflow or by hand. All tries of a run give `stage` the same token, so that its
rows are written once, also if the rows of the files differ between the tries. docs/jobs.md explains which
failures are worth a repetition.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import (
    DAG,
    Context,
    ExceptionRetryPolicy,
    RetryAction,
    RetryDecision,
    RetryPolicy,
    RetryRule,
    task,
)

import penstock

CONFIG = os.environ.get("PENSTOCK_CONFIG", "/etc/penstock.yaml")
FILES = os.environ.get("PENSTOCK_FILES", "/data/history")  # with a folder for each day
TABLE = "features.history"
BRANCH = "candidate"
# A dataset of the config file whose staging entry has ref: candidate.
CANDIDATE = "clicks_candidate"
# The start of a run is the same for all tries of its tasks.
TOKEN = "{{ dag_run.start_date.strftime('%Y%m%dT%H%M%S.000Z') }}-history"


class ByExitCode(RetryPolicy):
    """Ends a task at once if its command exits with one of these codes, since each try would end like this."""

    def __init__(self, final: Collection[int]) -> None:
        """Takes the exit codes after which the command is not repeated."""
        self.final = final

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002
        max_tries: int,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> RetryDecision:
        """Decides by the text of BashOperator's exception, which ends with the exit code."""
        if any(str(exception).endswith(f"exit code {code}.") for code in self.final):
            return RetryDecision.fail(reason="the same command would fail again: see docs/jobs.md")
        return RetryDecision.default()


# A conflict needs another look at the branch; a mistake, a right or a name needs a person.
BY_KIND = ExceptionRetryPolicy(
    rules=[
        RetryRule(
            exception=[penstock.Invalid, penstock.NotFound, penstock.Forbidden, penstock.Conflict],
            action=RetryAction.FAIL,
            reason="the same call would fail again: see docs/errors.md",
        )
    ]
)

with DAG(
    dag_id="penstock_backfill",
    schedule="@daily",
    start_date=datetime(2026, 11, 1),
    catchup=False,
    max_active_runs=1,  # the runs share a branch
    default_args={"retries": 3, "retry_delay": timedelta(minutes=2), "retry_exponential_backoff": True},
) as dag:
    stage = BashOperator(
        task_id="stage",
        bash_command=f'exec penstock stage {TABLE} "$FILES"/{{{{ ds }}}} --token {TOKEN} --branch {BRANCH} --config "$CONFIG"',
        env={"CONFIG": CONFIG, "FILES": FILES},
        append_env=True,
        retry_policy=ByExitCode({2, 4}),
    )
    verify = BashOperator(
        task_id="verify",
        bash_command=f'exec penstock verify {CANDIDATE} --config "$CONFIG"',
        env={"CONFIG": CONFIG},
        append_env=True,
        retry_policy=ByExitCode({1, 2}),
    )

    @task(task_id="publish", retry_policy=BY_KIND)
    def publish() -> int:
        """Moves main to the branch; returns the snapshot. A branch that main has already is no failure."""
        with penstock.open(CONFIG) as client:
            return client.publish(TABLE, BRANCH).snapshot

    stage >> verify >> publish()
