/// A line chart as SVG, which takes its colours from the page around it.
struct Plot {
    struct Series {
        let name: String
        /// In ascending order of x.
        let points: [(x: Double, y: Double)]
    }

    enum Scale {
        case linear
        case logarithmic
    }

    let title: String
    /// The title of the vertical axis, with its unit.
    let unit: String
    let series: [Series]
    var scale = Scale.linear
    /// Places and names on the horizontal axis; nil makes some of seconds.
    var ticks: [(x: Double, name: String)]?

    private static let width = 720.0
    private static let height = 260.0
    private static let left = 64.0
    private static let right = 16.0
    private static let top = 12.0
    private static let bottom = 28.0

    var svg: String {
        guard let frame = Frame(series.flatMap(\.points), scale) else {
            return "<figure><figcaption>\(title)</figcaption><p class=\"none\">Nothing was measured.</p></figure>"
        }
        let lines = series.enumerated().map { place, series in line(series, place, frame) }.joined()
        let legend =
            series.count < 2
            ? ""
            : "<span class=\"legend\">"
                + series.enumerated().map { "<span><i class=\"s\($0.offset)\"></i>\($0.element.name)</span>" }.joined()
                + "</span>"
        return """
            <figure><figcaption>\(title), \(unit)\(legend)</figcaption>
            <svg viewBox="0 0 \(Int(Self.width)) \(Int(Self.height))" role="img" aria-label="\(title), \(unit)">
            \(verticalAxis(frame))\(horizontalAxis(frame))\(lines)</svg></figure>
            """
    }

    /// From values to places on the page.
    private struct Frame {
        let x: ClosedRange<Double>
        let y: ClosedRange<Double>
        let scale: Scale
        let ticks: [Double]

        /// Nil when there is nothing to draw.
        init?(_ points: [(x: Double, y: Double)], _ scale: Scale) {
            let shown = scale == .linear ? points : points.filter { $0.y > 0 }
            guard let lowX = shown.map(\.x).min(), let highX = shown.map(\.x).max(), let high = shown.map(\.y).max(),
                let low = shown.map(\.y).min()
            else { return nil }
            self.scale = scale
            x = lowX...max(highX, lowX + 1e-9)
            switch scale {
            case .linear:
                ticks = Self.linearTicks(to: max(high, 1e-9))
                y = 0...max(high * 1.02, ticks.last ?? high)
            case .logarithmic:
                ticks = Self.decades(low, high)
                y = ticks[0]...ticks[ticks.count - 1]
            }
        }

        /// Four to eight round numbers from 0 on.
        private static func linearTicks(to high: Double) -> [Double] {
            var step = 1.0
            while step * 8 < high { step *= 10 }
            while step > high { step /= 10 }
            for share in [0.1, 0.2, 0.25, 0.5] where high / (step * share) <= 8 {
                step *= share
                break
            }
            return Array(stride(from: 0, through: high + step * 0.999, by: step))
        }

        private static func decades(_ low: Double, _ high: Double) -> [Double] {
            var decade = 1e-6
            while decade * 10 <= low { decade *= 10 }
            var ticks = [decade]
            repeat {
                decade *= 10
                ticks.append(decade)
            } while decade < high
            return ticks
        }

        func place(x value: Double) -> Double {
            let share = (value - x.lowerBound) / (x.upperBound - x.lowerBound)
            return left + share * (width - left - right)
        }

        func place(y value: Double) -> Double {
            let share =
                switch scale {
                case .linear: value / y.upperBound
                case .logarithmic:
                    Plot.logarithm(max(value, y.lowerBound) / y.lowerBound)
                        / Plot.logarithm(y.upperBound / y.lowerBound)
                }
            return height - bottom - share * (height - top - bottom)
        }
    }

    private func verticalAxis(_ frame: Frame) -> String {
        frame.ticks.map { tick in
            let y = number(frame.place(y: tick))
            return """
                <line class="grid" x1="\(number(Self.left))" x2="\(number(Self.width - Self.right))" y1="\(y)" y2="\(y)"/>\
                <text x="\(number(Self.left - 8))" y="\(y)" dy="4" text-anchor="end">\(Self.short(tick))</text>
                """
        }.joined()
    }

    private func horizontalAxis(_ frame: Frame) -> String {
        let ticks = self.ticks ?? Self.secondTicks(frame.x)
        return ticks.filter { frame.x.contains($0.x) }.map { tick in
            let x = number(frame.place(x: tick.x))
            return "<text x=\"\(x)\" y=\"\(number(Self.height - 8))\" text-anchor=\"middle\">\(tick.name)</text>"
        }.joined()
    }

    private func line(_ series: Series, _ place: Int, _ frame: Frame) -> String {
        let points = series.points.filter { scale == .linear || $0.y > 0 }.map {
            "\(number(frame.place(x: $0.x))),\(number(frame.place(y: $0.y)))"
        }
        guard points.count > 1 else {
            let place = points.first?.split(separator: ",") ?? ["0", "0"]
            return "<circle class=\"dot\" cx=\"\(place[0])\" cy=\"\(place[1])\" r=\"3\"/>"
        }
        let list = points.joined(separator: " ")
        return "<polyline class=\"l\(place)\" points=\"\(list)\"><title>\(series.name)</title></polyline>"
    }

    private func number(_ value: Double) -> String { RunReport.decimal(value, 1) }

    private static func secondTicks(_ range: ClosedRange<Double>) -> [(x: Double, name: String)] {
        let length = range.upperBound - range.lowerBound
        let step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 3_600].first { length / $0 <= 10 }
        return stride(from: 0, through: range.upperBound, by: step ?? length / 8).map {
            ($0, "\(short($0)) s")
        }
    }

    /// A number for an axis: 1500 is 1.5k.
    static func short(_ value: Double) -> String {
        let (scaled, suffix) =
            value >= 1e6 ? (value / 1e6, "M") : value >= 1e3 ? (value / 1e3, "k") : (value, "")
        var text = RunReport.decimal(scaled, scaled < 10 ? 2 : 1)
        while text.hasSuffix("0") && text.contains(".") { text.removeLast() }
        return (text.hasSuffix(".") ? String(text.dropLast()) : text) + suffix
    }

    /// To the base of 2, which needs no library: the exponent, and the logarithm of the rest by its series.
    static func logarithm(_ value: Double) -> Double {
        guard value > 0 else { return 0 }
        let share = (value.significand - 1) / (value.significand + 1)
        let square = share * share
        var (term, sum) = (share, 0.0)
        for odd in stride(from: 1.0, through: 25, by: 2) {
            sum += term / odd
            term *= square
        }
        return Double(value.exponent) + 2 * sum / 0.693_147_180_559_945_3
    }
}
