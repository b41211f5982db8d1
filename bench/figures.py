"""Computes and prints the statistics of paired measurements."""

import json
import math
import random
import statistics


def upper_bound(values, confidence=0.95, rounds=4000, groups=None):
    """Returns the one-sided upper bound of the median, computed by bootstrap. The values of one group come from the
    same pair of processes, so the same random conditions affect them. They are therefore drawn together."""
    generator = random.Random(1)
    if groups is None:
        groups = list(range(len(values)))
    by_group = {}
    for group, value in zip(groups, values):
        by_group.setdefault(group, []).append(value)
    pools = list(by_group.values())
    medians = []
    for _ in range(rounds):
        drawn = []
        for _ in pools:
            pool = generator.choice(pools)
            drawn += generator.choices(pool, k=len(pool))
        medians.append(statistics.median(drawn))
    medians.sort()
    return medians[min(rounds - 1, math.ceil(confidence * rounds) - 1)]


class Report:
    def __init__(self):
        self.rows = []

    def add(self, what, unit, native, virgate, change, bound, limit, pairs):
        """Adds a row. `change` and `bound` are ratios of Virgate to native (such as 1.01), or differences in the
        unit."""
        self.rows.append({"what": what, "unit": unit, "native": native, "virgate": virgate, "change": change,
                          "bound": bound, "limit": limit, "pairs": pairs, "met": limit is None or bound <= limit})

    def print(self):
        print(f"| {'measurement':<44} | {'unit':<12} | {'native':>9} | {'virgate':>9} | {'change':>8} "
              f"| {'95 % upper':>10} | {'limit':>6} | pairs | met |")
        print("|" + "|".join("-" * width for width in (46, 14, 11, 11, 10, 12, 8, 7, 5)) + "|")
        for row in self.rows:
            limit = "" if row["limit"] is None else f"{row['limit']:g}"
            met = "" if row["limit"] is None else "yes" if row["met"] else "NO"
            print(f"| {row['what']:<44} | {row['unit']:<12} | {row['native']:>9.4g} | {row['virgate']:>9.4g} | "
                  f"{row['change']:>8.4f} | {row['bound']:>10.4f} | {limit:>6} | {row['pairs']:>5} | {met:<3} |",
                  flush=True)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "rows": self.rows}, file, indent=1)

    def all_met(self):
        return bool(self.rows) and all(row["met"] for row in self.rows)
