/// A line over the last hour.
struct Chart {
    private static let width = 240.0
    private static let height = 48.0

    let title: String
    /// The newest last; nil for no measurement.
    let values: [Double?]
    /// Of the time that the chart spans; the line ends at its right.
    let capacity: Int
    let shown: (Double) -> String

    private var known: [Double] { values.compactMap(\.self) }

    var html: HTML {
        let largest = known.max() ?? 0
        let newest = known.last.map(shown) ?? "–"
        let label = "\(title): now \(newest), at most \(shown(largest))"
        return """
            <figure><figcaption><b>\(title)</b> <span class=now>\(newest)</span> <span class=m>max \(shown(largest))</span></figcaption>\
            <svg class=chart viewBox="0 0 240 50" preserveAspectRatio=none role=img aria-label="\(label)">\
            <path class=base d="M0 49H240"/><path class=line d="\(path(largest))"/></svg></figure>
            """
    }

    /// One step of the line for each of its points: of neighbours, the largest counts.
    private func path(_ largest: Double) -> String {
        let step = max(1, capacity / 180)
        let first = capacity - values.count
        var path = ""
        var isDrawing = false
        for start in stride(from: 0, to: values.count, by: step) {
            guard let value = values[start..<min(start + step, values.count)].compactMap(\.self).max() else {
                isDrawing = false
                continue
            }
            let x = Double(first + start) / Double(max(1, capacity - 1)) * Self.width
            let y = 1 + Self.height * (1 - (largest > 0 ? value / largest : 0))
            path += "\(isDrawing ? "L" : "M")\(Self.rounded(x)) \(Self.rounded(y))"
            isDrawing = true
        }
        return path
    }

    static func rounded(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(abs(tenths % 10))"
    }
}
