"""The command `placerl report`, which writes the report of stored results."""

from harness.cli.app import app
from harness.cli.common import RESULTS, JsonOption, ResultsOption
from harness.cli.summary import write_report


@app.command(epilog="Example: `placerl report --results results`")
def report(results: ResultsOption = RESULTS, as_json: JsonOption = False) -> None:
    """Write the report of the stored results, without measuring anything."""
    write_report(results, as_json)
