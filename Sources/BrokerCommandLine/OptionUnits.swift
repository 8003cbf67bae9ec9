/// The forms of values that the options of all programs take.
package enum OptionUnits {
    package static let explanation =
        "A size is bytes, or has a unit: 64K, 16M, 2G, 1T, each 1024 of the one before. A time is seconds, or has a unit: "
        + "500ms, 30s, 5m, 2h, 7d."

    /// The remedy for a value that swift-argument-parser refuses: the names of the values say what they are.
    ///
    /// - Parameter fault: its message.
    static func remedy(for fault: String) -> String {
        if fault.hasPrefix("Missing value for '") {
            return ". A value that begins with a dash is given as OPTION=VALUE."
        }
        guard fault.contains(" is invalid for ") else { return "" }
        if fault.contains("<size>'") { return ". Give bytes, or a number with K, M, G or T, as in 64M." }
        if fault.contains("'--max-delete ") { return ". Give a number of objects, or a share of them, as in 10%." }
        return fault.contains("<time>'") ? ". Give seconds, or a number with ms, s, m, h or d, as in 5m." : ""
    }
}
