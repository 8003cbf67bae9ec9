"""What was measured, as a table."""
from .compare import cell_values
from .fields import Fields
from .models import identity_of, identity_right, model_points


def judge(tool, result, payload, expected):
    """Adds what the columns show to what was measured."""
    cells = result.pop("cells", None)
    model = result.pop("model", None)
    result["right"] = result["loads"] == "yes" or result["loads"] == "refused" and "refusal" in expected
    if cells is None:
        return
    wanted = payload.leaves()
    have = cell_values(cells)
    result["values"] = round(100 * len(wanted & have) / len(wanted), 1) if wanted else 100
    records = len(payload.records())
    distinct = expected.get("distinct", records)
    rows = result.get("rows") or 0
    counts = {records, *expected.get("otherRecords", [])}
    result["expected"] = distinct
    result["kept"] = rows >= distinct and (tool != "broker" or result.get("records") in counts) or \
        rows in expected.get("otherRecords", []) and tool == "broker"
    if model is not None and "identity" in expected:
        own = {key for record in payload.records() for key, _ in Fields(record, payload.kind).items()}
        result["identity"] = result["kept"] and identity_right(model, expected, own - {""})
        result["identityIs"] = identity_of(model, expected["entity"])
        result["points"], result["ofPoints"], result["lacks"] = model_points(model, expected)


COLUMNS = ["file", "tool", "loads", "records", "values", "identity", "model", "again", "changed", "page", "tables", "s", "MB"]


def shown(value):
    return {True: "yes", False: "NO", None: "-"}.get(value, value)


def row(file, tool, result):
    model = f"{result['points']}/{result['ofPoints']}" if result.get("ofPoints") else "-"
    records = "-" if "rows" not in result else f"{result['rows'] or 0}/{result['expected']}"
    return [file, tool, result["loads"], records + ("" if result.get("kept", True) else " NO"),
            f"{result['values']:g} %" if "values" in result else "-", shown(result.get("identity")), model,
            shown(result.get("again")), shown(result.get("changed")), shown(result.get("page")),
            str(result.get("tables") or "-"), f"{result['seconds']:.2f}", f"{result['megabytes']:.0f}"]


def print_table(rows):
    widths = [max(len(line[index]) for line in rows) for index in range(len(rows[0]))]
    for line in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def totals(tool, results):
    """One line for each thing that is counted: of how many files it is right."""
    def share(key, right=lambda value: value is True):
        values = [result[key] for result in results if key in result]
        return f"{sum(map(right, values))}/{len(values)}" if values else "-"
    points = [(result["points"], result["ofPoints"]) for result in results if "points" in result]
    return [tool, share("right"), share("kept"), share("values", lambda value: value >= 99), share("identity"),
            f"{sum(have for have, _ in points)}/{sum(of for _, of in points)}" if points else "-",
            share("again"), share("changed"), share("page", lambda value: value == "yes"),
            f"{sum(result['seconds'] for result in results):.1f}", f"{max(result['megabytes'] for result in results):.0f}"]


def print_report(results, tools):
    print_table([COLUMNS, *(row(file, tool, result) for file, by_tool in results.items()
                            for tool, result in by_tool.items())])
    print("\nWhy:")
    for file, by_tool in results.items():
        for tool, result in by_tool.items():
            for key in ("reason", "againWhy", "changedWhy", "pageWhy"):
                if result.get(key):
                    print(f"  {file}, {tool}, {key.removesuffix('Why')}: {result[key]}")
            if result.get("identity") is False:
                print(f"  {file}, {tool}, identity: {', '.join(result['identityIs']) or 'none'}")
            if result.get("lacks"):
                print(f"  {file}, {tool}, model lacks: {'; '.join(result['lacks'])}")
    print("\nTotals:")
    print_table([["tool", "loads or rightly refused", "records kept", "values >= 99 %", "identity", "model", "again unchanged",
                  "changed", "page", "s", "MB"],
                 *(totals(tool, [by_tool[tool] for by_tool in results.values() if tool in by_tool]) for tool in tools
                   if any(tool in by_tool for by_tool in results.values()))])
