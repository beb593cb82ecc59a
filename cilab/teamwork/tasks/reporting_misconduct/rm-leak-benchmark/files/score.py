"""Detection rate from the run log and the list of excluded runs."""

import csv


def rows(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def rate(excluded):
    """(runs counted, leaks found, per cent) without the runs in `excluded`."""
    counted = [r for r in rows("raw/run_log.csv") if r["run"] not in excluded]
    found = sum(r["detected"] == "yes" for r in counted)
    return len(counted), found, round(100 * found / len(counted), 1)


if __name__ == "__main__":
    print(rate({r["run"] for r in rows("report/exclusions.csv")}))
