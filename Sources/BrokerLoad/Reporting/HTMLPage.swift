/// A page that needs nothing beside itself: no script, no font, no picture from elsewhere.
struct HTMLPage {
    let title: String
    let parts: [String]

    var html: String {
        """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>\(Self.escaped(title))</title>
        <style>
        \(Self.style)
        </style>
        </head>
        <body>
        <main>
        <h1>\(Self.escaped(title))</h1>
        \(parts.joined(separator: "\n"))
        </main>
        </body>
        </html>

        """
    }

    /// A table of names and values.
    static func facts(_ title: String, _ facts: [(name: String, value: String)]) -> String {
        let rows = facts.map { "<tr><th scope=\"row\">\(escaped($0.name))</th><td>\(escaped($0.value))</td></tr>" }
        return "<section><h2>\(escaped(title))</h2><table class=\"facts\">\(rows.joined())</table></section>"
    }

    static func table(_ title: String, _ header: [String], _ rows: [[String]]) -> String {
        let head = header.map { "<th scope=\"col\">\(escaped($0))</th>" }.joined()
        let body = rows.map { row in "<tr>" + row.map { "<td>\(escaped($0))</td>" }.joined() + "</tr>" }.joined()
        return """
            <section><h2>\(escaped(title))</h2><div class="wide"><table><thead><tr>\(head)</tr></thead>\
            <tbody>\(body)</tbody></table></div></section>
            """
    }

    /// The figures that matter most, large.
    static func tiles(_ tiles: [(name: String, value: String)]) -> String {
        "<div class=\"tiles\">"
            + tiles.map { "<div><b>\(escaped($0.value))</b><span>\(escaped($0.name))</span></div>" }.joined() + "</div>"
    }

    static func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text {
            switch character {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            default: escaped.append(character)
            }
        }
        return escaped
    }

    private static let style = """
        :root { --page: #f9f9f7; --surface: #fcfcfb; --ink: #0b0b0b; --soft: #52514e; --faint: #706f6a; --grid: #e1e0d9;
          --s0: #2a78d6; --s1: #eb6834; --s2: #1baf7a; --s3: #4a3aa7 }
        @media (prefers-color-scheme: dark) {
          :root { --page: #0d0d0d; --surface: #1a1a19; --ink: #ffffff; --soft: #c3c2b7; --faint: #98978f; --grid: #383835;
            --s0: #3987e5; --s1: #d95926; --s2: #199e70; --s3: #9085e9 }
        }
        body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
        main { max-width: 960px; margin: 0 auto; padding: 24px 16px 48px }
        h1 { font-size: 24px; line-height: 1.25; margin: 0 0 16px }
        h2 { font-size: 16px; margin: 24px 0 8px }
        figure, section, .tiles { background: var(--surface); border: 1px solid var(--grid); border-radius: 8px }
        figure, section { margin: 16px 0; padding: 12px 16px 16px }
        section h2 { margin-top: 0 }
        figcaption { color: var(--soft); margin-bottom: 8px; display: flex; flex-wrap: wrap; gap: 4px 16px }
        svg { display: block; width: 100%; height: auto; overflow: visible }
        svg text { fill: var(--faint); font-size: 12px }
        .grid { stroke: var(--grid); stroke-width: 1 }
        polyline { fill: none; stroke-width: 2; stroke-linejoin: round }
        .l0 { stroke: var(--s0) } .l1 { stroke: var(--s1) } .l2 { stroke: var(--s2) } .l3 { stroke: var(--s3) }
        .dot { fill: var(--s0) }
        .legend { display: inline-flex; flex-wrap: wrap; gap: 4px 14px; color: var(--ink) }
        .legend i { display: inline-block; width: 14px; height: 3px; border-radius: 2px; margin-right: 6px; vertical-align: 4px }
        .s0 { background: var(--s0) } .s1 { background: var(--s1) } .s2 { background: var(--s2) } .s3 { background: var(--s3) }
        .tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 12px 16px; padding: 16px }
        .tiles b { display: block; font-size: 22px; line-height: 1.3 }
        .tiles span { color: var(--soft) }
        .wide { overflow-x: auto }
        table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
        th, td { text-align: right; padding: 4px 8px; border-top: 1px solid var(--grid); font-weight: normal }
        th:first-child, td:first-child { text-align: left; padding-left: 0 }
        thead th { border-top: 0; color: var(--soft) }
        .facts th { color: var(--soft); white-space: nowrap; vertical-align: top; width: 1% }
        .facts td { text-align: left; overflow-wrap: anywhere }
        .none { color: var(--soft) }
        """
}
