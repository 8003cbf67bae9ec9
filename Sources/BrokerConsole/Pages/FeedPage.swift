import BrokerCommandLine

/// The newest commits.
struct FeedPage {
    let entries: [FeedLog.Entry]
    let fault: String?

    var html: HTML {
        var table = Table(
            "The last \(FeedLog.capacity) commits that changed something, the newest first",
            ["sequence", "at", "job", "changes"])
        for entry in entries {
            let changes = entry.commit.changes.sorted { $0.key < $1.key }.map { entity, of -> HTML in
                let numbers = [(of.inserted, "inserted"), (of.updated, "updated"), (of.deleted, "deleted")].filter {
                    $0.0 > 0
                }
                .map { "\(ShortText.count($0.0)) \($0.1)" }
                return "<div>\(EntityPage.link(entity)) \(numbers.joined(separator: ", "))</div>"
            }
            let job = entry.commit.id.map { JobLists.link(id: $0.text) }
            table.add([
                "\(entry.commit.sequence)", "\(entry.seconds.map { Timestamp(seconds: $0).localText } ?? "before")",
                job ?? "another user's", "\(changes)",
            ])
        }
        let alert = fault.map { fault -> HTML in "<p class=alert role=alert>\(fault)</p>" }
        return "<h1>Feed</h1>\(alert)\(table.html(none: "No commit has come yet."))"
    }
}
