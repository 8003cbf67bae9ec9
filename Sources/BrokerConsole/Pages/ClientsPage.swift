import Broker
import BrokerCommandLine
import BrokerModel

/// Who is connected to the server.
struct ClientsPage {
    /// Of the action `clients`.
    let clients: [ModelValue]
    let forms: Forms?

    /// More rows would be no page any more.
    private static let rows = 50

    var html: HTML {
        var table = Table(
            "Connections, the last to fail first",
            ["client"] + (forms == nil ? [] : ["kick"])
                + ["#failed", "last error", "#jobs", "#in flight", "#unread", "#received", "since"])
        for client in clients.sorted(by: Self.isBefore).prefix(Self.rows) { table.add(row(client)) }
        let note: HTML =
            "<p class=note>\(Self.rows) of \(ShortText.count(clients.count)) are shown: <code>broker clients</code> lists all.</p>"
        return """
            <h1>Clients</h1>\(note, if: clients.count > Self.rows)\(table.html(none: "No client is connected."))<p class=m>After those that \
            failed come those with the most unread bytes: they do not read their answers. What a kicked client sent takes \
            effect, and it may connect again: to keep a user out, take it out of <code>allow-user</code>, and restart the server.</p>
            """
    }

    private static func isBefore(_ one: ModelValue, _ other: ModelValue) -> Bool {
        func rank(_ client: ModelValue) -> (Int, Int) {
            (client["failedAt"]?.int ?? 0, client["unreadBytes"]?.int ?? 0)
        }
        return rank(one) > rank(other)
    }

    private func row(_ client: ModelValue) -> [HTML] {
        func count(_ key: String) -> HTML { "\(ShortText.count(client[key]?.int ?? 0))" }
        func bytes(_ key: String) -> HTML { "\(ShortText.bytes(client[key]?.int ?? 0))" }
        func moment(_ key: String) -> String { client[key]?.int.map { Timestamp(seconds: $0 / 1_000).localText } ?? "" }
        let number = client["connection"]?.int ?? 0
        let error = client["error"].map { error -> HTML in
            """
            <div class=text>\(error["code"]?.string ?? ""): \((error["message"]?.string ?? "").cut(to: 300)) \
            <span class=m>(\(moment("failedAt")))</span></div>
            """
        }
        let name: HTML = """
            \(client["client"]?.string?.cut(to: 80) ?? "without a name")<div class=m>connection \(number), \
            \(UserName.text(of: Int64(client["user"]?.int ?? 0))) (\(client["role"]?.string ?? "")), process \(client["process"]?.int ?? 0)</div>
            """
        let kick = forms?.button(
            "Kick", action: "/kick", isBad: true, isInline: true, ["connection": "\(number)"])
        return [name] + (kick.map { [$0] } ?? []) + [
            count("failed"), "\(error)", count("jobs"), count("inFlight"), bytes("unreadBytes"),
            bytes("receivedBytes"), "\(moment("connectedAt"))",
        ]
    }
}
